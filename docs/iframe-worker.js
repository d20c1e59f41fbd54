/* Search from files on disk: browsers refuse workers for pages opened as file://, so the search worker runs in a hidden
 * frame of the page instead. On a server nothing is replaced. */
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      this.loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = url;
      frame.contentDocument.body.append(script);
      this.inside = inside;
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  }
  window.Worker = FrameWorker;
  window.IFrameWorker = FrameWorker; // the search script looks for this name
}
