package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure"
)

func TestParseProcess(t *testing.T) {
	tail := " 1 2 3 4 -1 6 700 8 9 10 110 120 13 14 20 0 5 0 1900 200000 21 rest"
	p, err := parseProcess([]byte("42 (a) b (c)) S" + tail))
	if err != nil || p.pid != 42 || p.name != "a) b (c)" || p.ppid != 1 || p.threads != 5 {
		t.Fatalf("%+v, %v", p, err)
	}
	row := p.sample(measure.TimeValue(time.Now()))
	checkFits(t, &NmetricsProcess, []measure.Sample{row})
	for column, want := range map[string]uint64{"start": 19000, "user": 1100, "sys": 1200, "total": 2300, "size": 200000, "resident": 21 * uint64(os.Getpagesize()), "minor_faults": 700, "major_faults": 9} {
		if got := row[NmetricsProcess.Index(column)].Uint64(); got != want {
			t.Errorf("%s is %d, want %d", column, got, want)
		}
	}
	for _, text := range []string{"", "42 (", "42 a) S" + tail, "x (a) S" + tail, "42 (a) S 1 2", "42 (a) Sx" + tail, "42 (a) S" + strings.Replace(tail, "700", "-7", 1)} {
		if _, err := parseProcess([]byte(text)); !errors.Is(err, ErrProcess) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestReadProcesses finds this process by its ID and by its name.
func TestReadProcesses(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	samples, err := ReadNmetricsProcesses([]string{pid})
	if err != nil || len(samples) != 1 {
		t.Fatalf("%v, %v", samples, err)
	}
	checkFits(t, &NmetricsProcess, samples)
	name := samples[0][2].Text()
	if resident := samples[0][NmetricsProcess.Index("resident")].Uint64(); resident < 1<<20 || name == "" {
		t.Errorf("%q has %d bytes", name, resident)
	}
	if named, err := ReadNmetricsProcesses([]string{name[:4] + "*", pid}); err != nil || len(named) == 0 {
		t.Errorf("%v, %v", named, err)
	}
	if none, err := ReadNmetricsProcesses([]string{"no such program"}); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	if err := CheckProcesses([]string{"a[", "b"}); !errors.Is(err, ErrProcess) {
		t.Error(err)
	}
}

func FuzzProcess(f *testing.F) {
	f.Add([]byte("42 (a) b (c)) S 1 2 3 4 -1 6 700 8 9 10 110 120 13 14 20 0 5 0 1900 200000 21"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parseProcess(text)
		if err != nil {
			return
		}
		if err := NmetricsProcess.Check(p.sample(measure.TimeValue(time.Unix(0, 0)))); err != nil {
			t.Error(err)
		}
	})
}
