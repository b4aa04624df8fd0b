// Windows for tests.
import { noHistogram, type Figures } from "./window.ts";

/** A window that starts then, with the given figures and plausible others. */
export function figures(start: number, f: Partial<Figures> = {}): Figures {
  return {
    start, packets: 20, bytes: 2000, expected: 20, lost: 0, duplicated: 0, reordered: 0, late: 0, unchecked: 0,
    delay: { count: 20, min: 5.0e6, mean: 5.1e6, p50: 5.1e6, p90: 5.2e6, p99: 5.3e6, max: 5.4e6, histogram: noHistogram },
    ipdv: { count: 19, min: 1e3, mean: 1e5, p50: 1e5, p90: 3e5, p99: 4e5, max: 5e5, histogram: noHistogram },
    clockError: 0, ...f,
  };
}
