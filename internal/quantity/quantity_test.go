package quantity_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"pillion.dev/internal/quantity"
)

// vectors are also read by ui/data/quantity.test.ts. Without a figure the text is invalid.
type vectors struct {
	Durations []struct {
		Text    string
		Ns      *int64
		Written string
	}
	Sizes []struct {
		Text  string
		Bytes *int64
	}
	Nanos []struct {
		Ns    int64
		Shown string
	}
	Bytes []struct {
		Bytes int64
		Shown string
	}
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/quantities.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, row := range v.Durations {
		var d quantity.Duration
		err := d.UnmarshalText([]byte(row.Text))
		if (err == nil) != (row.Ns != nil) || err == nil && (int64(d) != *row.Ns || d.String() != row.Written) {
			t.Errorf("duration %q: got %d, written %q, %v, want %+v", row.Text, d, d, err, row)
		}
	}
	for _, row := range v.Sizes {
		var s quantity.Size
		err := s.UnmarshalText([]byte(row.Text))
		if (err == nil) != (row.Bytes != nil) || err == nil && int64(s) != *row.Bytes {
			t.Errorf("size %q: got %d, %v, want %+v", row.Text, s, err, row)
		}
	}
	for _, row := range v.Nanos {
		if got := quantity.FormatNanos(row.Ns); got != row.Shown {
			t.Errorf("%d ns: got %q, want %q", row.Ns, got, row.Shown)
		}
	}
	for _, row := range v.Bytes {
		if got := quantity.FormatBytes(row.Bytes); got != row.Shown {
			t.Errorf("%d bytes: got %q, want %q", row.Bytes, got, row.Shown)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"1h30m", "-1w2d", "0", "1.5s", "100us", "106751d106751d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := quantity.ParseDuration(text)
		if err != nil || d == math.MinInt64 {
			return
		}
		again, err := quantity.ParseDuration(quantity.FormatDuration(d))
		if err != nil || again != d {
			t.Fatalf("%q is %d, written %q, read %d, %v", text, d, quantity.FormatDuration(d), again, err)
		}
	})
}

func FuzzSize(f *testing.F) {
	for _, seed := range []string{"10M", "2GiB", "0", "1.5k", "-1", "1e9", "0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := quantity.ParseSize(text); err == nil && n < 0 {
			t.Fatalf("%q is %d", text, n)
		}
	})
}

func TestLeastDuration(t *testing.T) {
	if got := quantity.FormatDuration(math.MinInt64 * time.Nanosecond); got == "" {
		t.Error("got nothing")
	}
}

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 hops": quantity.Count(0, "hop"), "1 hop": quantity.Count(1, "hop"), "2 batches": quantity.Count(uint64(2), "batch"), "1 batch": quantity.Count(int64(1), "batch"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestFormatRate(t *testing.T) {
	for rate, want := range map[int64]string{
		0: "0 bit/s", 999: "999 bit/s", 1000: "1 kbit/s", 1500: "1.5 kbit/s", 10_000_001: "10.000001 Mbit/s", 2_000_000_000: "2 Gbit/s", 5_000_000_000_000: "5000 Gbit/s",
	} {
		if got := quantity.FormatRate(rate); got != want {
			t.Errorf("%d: %q, want %q", rate, got, want)
		}
	}
}
