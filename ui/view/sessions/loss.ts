// Loss as text.

/** Loss as a share. */
export function lossText(lost: number, expected: number): string {
  if (expected === 0) return "–";
  const percent = (100 * lost) / expected;
  return `${percent > 0 && percent < 0.005 ? percent.toPrecision(1) : percent.toFixed(2)} %`;
}

