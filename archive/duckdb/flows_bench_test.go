package duckdb

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pillion.dev/archive"
)

// longBatch has rows of one pair, one a second, with histograms of 30 buckets.
func longBatch(t testing.TB, sequence uint64, from, n int) archive.Batch {
	t.Helper()
	var rows []flowRow
	random := rand.New(rand.NewPCG(uint64(from), 1))
	for i := from; i < from+n; i++ {
		var bounds []int64
		var counts []uint64
		for k := range 30 {
			bounds = append(bounds, 4_000_000+int64(k)*131_072)
			counts = append(counts, 1+random.Uint64N(40))
		}
		rows = append(rows, flowRow{
			"time": epoch.Add(time.Duration(i) * time.Second), "session": "s", "source": "a", "device": "eth0", "src": "192.0.2.1", "dst": "192.0.2.2",
			"proto": "udp", "sport": 1000 + i%50, "dport": 5201, "interval_ns": time.Second, "packets": 600, "bytes": 600_000, "expected": 601, "lost": 1,
			"duplicated": 0, "reordered": 0, "late": 0, "delay_count": 600, "delay_min_ns": 4_000_000, "delay_mean_ns": 5_000_000,
			"delay_p50_ns": 5_000_000, "delay_p90_ns": 6_000_000, "delay_p99_ns": 7_000_000, "delay_max_ns": 7_900_000,
			"delay_bounds_ns": bounds, "delay_counts": counts, "clock_error_ns": 1000, "source_clock_error_ns": 1000,
		})
	}
	return flowBatch(t, "b", sequence, rows...)
}

// BenchmarkFlows queries a long archive of one pair. PILLION_BENCH_ROWS is its length in
// seconds; PILLION_BENCH_FOLDER keeps it for further runs.
func BenchmarkFlows(b *testing.B) {
	rows := 50_000
	if n, err := strconv.Atoi(os.Getenv("PILLION_BENCH_ROWS")); err == nil {
		rows = n
	}
	folder := os.Getenv("PILLION_BENCH_FOLDER")
	if folder == "" {
		folder = b.TempDir()
	}
	path := filepath.Join(folder, "flows"+strconv.Itoa(rows))
	_, missing := os.Stat(path)
	a := open(b, path, Options{})
	for from := 0; missing != nil && from < rows; from += 10_000 {
		batch := longBatch(b, uint64(from/10_000), from, min(10_000, rows-from))
		store(b, a, batch)
	}
	end := epoch.Add(time.Duration(rows) * time.Second)
	selection := archive.Selection{Source: "a", Destination: "b"}
	for _, span := range []time.Duration{15 * time.Minute, 24 * time.Hour, 30 * 24 * time.Hour} {
		b.Run("windows/"+span.String(), func(b *testing.B) {
			for b.Loop() {
				answer, err := a.Windows(b.Context(), archive.Windows{Selection: selection, From: end.Add(-span), To: end, Points: 300})
				if err != nil || len(answer.Windows) == 0 {
					b.Fatal(answer, err)
				}
				b.ReportMetric(float64(answer.Sampled), "sampled")
			}
		})
		for _, order := range []string{"packets", "p99"} {
			b.Run("flows/"+order+"/"+span.String(), func(b *testing.B) {
				for b.Loop() {
					answer, err := a.Flows(b.Context(), archive.Flows{From: end.Add(-span), To: end, Granularity: "flow", Order: order, Limit: 100})
					if err != nil || len(answer.Flows) == 0 {
						b.Fatal(answer, err)
					}
				}
			})
		}
	}
}
