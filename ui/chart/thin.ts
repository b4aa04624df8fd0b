// Thinning for drawing: of each pixel column the first, smallest,
// largest and last values stay, so that the drawn line is the same.

/** First index in ascending times that is not before t. */
export function indexAt(times: ArrayLike<number>, t: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the time nearest to t; -1: none. */
export function nearest(times: ArrayLike<number>, t: number): number {
  const i = indexAt(times, t);
  if (i > 0 && (i === times.length || t - (times[i - 1] ?? 0) < (times[i] ?? 0) - t)) return i - 1;
  return i < times.length ? i : -1;
}

/**
 * Indices between start and end whose points draw the line: of each column (a
 * column is `wide` ms, counted from `origin`) at most four, and one NaN for each gap.
 */
export function thin(times: ArrayLike<number>, values: ArrayLike<number>, start: number, end: number, origin: number, wide: number): number[] {
  const kept: number[] = [];
  let column = -Infinity;
  let first = -1, low = -1, high = -1, last = -1;
  const flush = () => {
    if (first < 0) return;
    kept.push(first);
    const a = Math.min(low, high);
    const b = Math.max(low, high);
    if (a > first) kept.push(a);
    if (b > a && b > first) kept.push(b);
    if (last > b && last > first) kept.push(last);
    first = -1;
  };
  for (let i = start; i < end; i++) {
    const v = values[i] ?? NaN;
    if (v !== v) {
      flush();
      const before = kept[kept.length - 1];
      if (before !== undefined && !Number.isNaN(values[before])) kept.push(i);
      column = -Infinity;
      continue;
    }
    const c = Math.floor(((times[i] ?? 0) - origin) / wide);
    if (c !== column) {
      flush();
      column = c;
      first = low = high = i;
    }
    if (v < (values[low] ?? 0)) low = i;
    if (v > (values[high] ?? 0)) high = i;
    last = i;
  }
  flush();
  return kept;
}
