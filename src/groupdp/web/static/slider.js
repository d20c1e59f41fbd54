// Where a value stands on its slider. Most scales are logarithmic; dragged values have three digits, typed ones any number.

export const TOP = 1000;

const isLinear = (field) => !field.logarithmic || field.low <= 0;
const digits = (field) => (field.name === "delta" ? 1 : 3);

export function position(field, text) {
  const value = Number(text);
  if (!Number.isFinite(value)) return null;
  const { low, high } = field;
  const share = isLinear(field) ? (value - low) / (high - low) : Math.log(Math.max(value, low) / low) / Math.log(high / low);
  return Math.round(TOP * Math.min(Math.max(share, 0), 1));
}

export function valueAt(field, place) {
  const share = place / TOP;
  const { low, high } = field;
  let value = isLinear(field) ? low + share * (high - low) : low * (high / low) ** share;
  if (field.kind === "integer") {
    value = Math.round(value);
    const unit = 10 ** Math.max(Math.floor(Math.log10(Math.max(value, 1))) - 2, 0);
    return String(Math.round(value / unit) * unit);
  }
  return plain(Number(value.toPrecision(digits(field))));
}

/** How far one press of an arrow key goes: a whole example, or a hundredth of the scale. */
export const step = (field) => (isLinear(field) ? TOP / (field.high - field.low) : 1);

/** The shortest way to write a number as people do: 0.01, 1e-6. */
export function plain(value) {
  return String(value).replace("e+", "e").replace(/e-0?/, "e-");
}
