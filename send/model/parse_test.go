package model_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"pillion.dev/send/model"
)

func TestParse(t *testing.T) {
	for _, row := range []struct{ name, text, written string }{
		{"constant time", "constant(1ms)", ""},
		{"constant size", "constant(1.5kB)", "constant(1500B)"},
		{"a number without a unit is a size", "uniform(64,1500)", "uniform(64B,1500B)"},
		{"0 alone is a time", "constant(0)", "constant(0s)"},
		{"m is minutes", "exponential(10m)", ""},
		{"M is megabytes", "exponential(10M)", "exponential(10000000B)"},
		{"spaces", " normal( 10ms , 500us , max = 20ms ) ", "normal(10ms,500us,max=20ms)"},
		{"fractions of units", "exponential(1.5ms)", ""},
		{"poisson of sizes", "poisson(500)", "poisson(500B)"},
		{"poisson of times has a unit", "poisson(10ms)", "poisson(10ms,unit=1ms)"},
		{"poisson with another unit", "poisson(10ms,unit=10us,max=1s)", ""},
		{"pareto", "pareto(1.5,100B,max=1500B)", ""},
		{"cauchy", "cauchy(1ms,200us,min=100us,max=10ms)", ""},
		{"gamma", "gamma(2.5e-1,1ms)", "gamma(0.25,1ms)"},
		{"weibull", "weibull(10,100ms)", ""},
		{"file", "file(testdata/sizes.txt,order=sequential,min=100B)", ""},
		{"file in random order", "file(testdata/sizes.txt,order=random)", "file(testdata/sizes.txt)"},
		{"quoted path", `file("testdata/sizes.txt",max=1kB)`, "file(testdata/sizes.txt,max=1000B)"},
		{"onoff", "onoff(on=exponential(100ms),off=weibull(10,100ms,max=1s),gap=constant(1ms))", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			d, err := model.Parse(row.text)
			if err != nil {
				t.Fatal(err)
			}
			want := row.written
			if want == "" {
				want = row.text
			}
			if got := d.String(); got != want {
				t.Errorf("written %s, want %s", got, want)
			}
			again, err := model.Parse(d.String())
			if err != nil || again.String() != d.String() {
				t.Errorf("%s read again: %v, %v", d, again, err)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", `"" is not a distribution such as exponential(1ms); known are constant, uniform`},
		{"exponential", "is not a distribution such as"},
		{"exponential(1ms", "is not a distribution such as"},
		{"exponential(1ms))", "unmatched )"},
		{"exponential((1ms)", "missing )"},
		{"exponential(1ms,)", "empty argument"},
		{"lognormal(1ms,1ms)", "lognormal: unknown distribution; known are constant, uniform, exponential, normal, poisson, pareto, cauchy, gamma, weibull, file, onoff"},
		{"exponential()", "exponential: 0 parameters given; want exponential(mean)"},
		{"pareto(1.5)", "pareto: 1 parameter given; want pareto(shape,scale)"},
		{"exponential(1ms,mx=3ms)", `exponential: unknown option "mx"; allowed are min, max`},
		{"exponential(1ms,max=)", "max has no value"},
		{"exponential(1ms,max=2ms,max=3ms)", "max is given twice"},
		{"exponential(0ms)", `exponential: mean "0ms": must be greater than 0`},
		{"exponential(-1ms)", `exponential: mean "-1ms": must not be negative`},
		{"exponential(1x)", `exponential: mean "1x": not a time: "1x" is not a duration`},
		{"exponential(10.5B)", `exponential: mean "10.5B": must be a whole number of bytes`},
		{"exponential(1ms,max=10B)", `exponential: max "10B": not a time`},
		{"normal(100B,10ms)", `normal: mean "100B": not a time`},
		{"uniform(2ms,1ms)", "uniform: low must be less than high"},
		{"uniform(200,100)", "uniform: low must be less than high"},
		{"pareto(0,100B)", `pareto: shape "0": must be a number from 0.01 to 1e+06`},
		{"pareto(NaN,100B)", `pareto: shape "NaN": not a number`},
		{"pareto(1ms,100B)", `pareto: shape "1ms": not a number`},
		{"exponential(1ms,min=2ms,max=1ms)", "exponential: min is larger than max"},
		{"normal(10ms,1ms,max=5ms)", "normal: the values from 0s to 5ms hold 2.9e-05 % of the distribution; at least 1 % is required"},
		{"normal(10ms,1ms,min=20ms)", "normal: the values from 20ms to infinity hold"},
		{"constant(1ms,min=2ms)", "hold 0 % of the distribution"},
		{"poisson(10ms,unit=0s)", `poisson: unit "0s": must be greater than 0`},
		{"poisson(10,unit=2)", `poisson: unknown option "unit"; allowed are min, max`},
		{"poisson(10s,unit=1ns)", "a mean of 1e+10 units is too large; at most 1e+09 is allowed"},
		{"file(testdata/none.txt)", "file: open testdata/none.txt: no such file or directory"},
		{"file(testdata)", "file: open testdata: not a regular file"},
		{`file("testdata)`, "quotation mark without its counterpart"},
		{"file(testdata/sizes.txt,order=any)", `file: order "any": must be sequential or random`},
		{"file(testdata/sizes.txt,min=2kB)", "file: testdata/sizes.txt: no values within the bounds"},
		{"file(testdata/golden.py)", "file: testdata/golden.py: line 2: not a time"},
		{"onoff(on=constant(1ms))", "onoff: off= is missing; want onoff(on=DISTRIBUTION,off=DISTRIBUTION,gap=DISTRIBUTION)"},
		{"onoff(on=constant(1ms),off=constant(1ms),gap=constant(0s))", "gap: must not always be 0"},
		{"onoff(on=constant(1ms),off=exponential(0),gap=constant(1ms))", `onoff: off: exponential: mean "0": must be greater than 0`},
		{"onoff(on=constant(1ms),off=onoff(),gap=constant(1ms))", "onoff: off: onoff cannot be nested"},
		{"onoff(on=constant(1ms),off=constant(1ms),gap=constant(1ms),max=1s)", `unknown option "max"; allowed are on, off, gap`},
	} {
		t.Run(row.text, func(t *testing.T) {
			d, err := model.Parse(row.text)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, %v, want %s", d, err, row.want)
			}
		})
	}
}

func TestParseModelErrors(t *testing.T) {
	const valid = "interval=constant(1ms) size=constant(100)"
	for _, row := range []struct{ text, want string }{
		{"", "model: interval= is missing, such as"},
		{"interval=constant(1ms)", "model: size= is missing"},
		{"interval=constant(100B) size=constant(1ms)", `model: interval: constant: value "100B": not a time`},
		{"interval=constant(1ms) size=constant(1ms)", `model: size: constant: value "1ms": not a size`},
		{"interval=constant(1ms) size=onoff(on=constant(1))", "model: size: onoff: is one of intervals, not of sizes"},
		{"interval=constant(1ms) size=constant(100000)", "size: constant(100000B): the values from 0B to 65535B hold 0 %"},
		{valid + " seed=-1", `model: seed: "-1" is not a whole number from 0 to 2^64-1`},
		{valid + " seed=1 seed=2", "model: seed is given twice"},
		{valid + " count=0", `model: count: "0" is not a whole number greater than 0`},
		{valid + " duration=0s", `model: duration: "0s" is not greater than 0`},
		{valid + " duration=10", `model: duration: "10" is not a duration`},
		{valid + " rate=1M", `model: unknown key "rate"; allowed are interval, size, seed, count and duration`},
		{valid + " constant(1ms", "missing )"},
	} {
		t.Run(row.text, func(t *testing.T) {
			m, err := model.ParseModel(row.text)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, %v, want %s", m, err, row.want)
			}
		})
	}
}

func TestModelIsWrittenAsRead(t *testing.T) {
	const text = `interval=onoff(on=exponential(1s),off=pareto(1.5,100ms),gap=exponential(1ms)) size=normal(500B,100B,max=1500B) seed=18446744073709551615 count=10 duration=1m`
	if got := parseModel(t, strings.ReplaceAll(text, " ", "\n  ")).String(); got != text {
		t.Errorf("got %s\nwant %s", got, text)
	}
}

func TestFileOfTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gaps, of a flow.txt")
	if err := os.WriteFile(path, []byte("1.5\n\n# a comment\n 20us\n1e-6\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := model.Parse(fmt.Sprintf("file(%q,order=sequential)", path))
	if err != nil {
		t.Fatal(err)
	}
	stream := d.Stream(nil)
	for i, want := range []float64{1.5e6, 20e3, 1, 1.5e6} {
		if got := stream.Draw(); got != want {
			t.Errorf("value %d: got %g, want %g", i, got, want)
		}
	}
	if again, err := model.Parse(d.String()); err != nil || again.String() != d.String() {
		t.Errorf("%s read again: %v, %v", d, again, err)
	}
}

func TestFilesAreRefusedWithoutOpen(t *testing.T) {
	var p model.Parser
	_, err := p.ParseModel("interval=constant(1ms) size=file(/etc/passwd)")
	if err == nil || !strings.Contains(err.Error(), "files are not allowed here") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseModel(f *testing.F) {
	for _, seed := range []string{
		"interval=exponential(1ms) size=pareto(1.5,100B) seed=1 count=10 duration=1s",
		"interval=onoff(on=gamma(2,1ms),off=weibull(0.5,1s,max=10s),gap=poisson(2ms,unit=100us)) size=file(sizes,order=sequential)",
		`interval=file("times") size=normal(500,200,min=64,max=1500)`,
		"interval=cauchy(0,1ns) size=uniform(0,9EB)", "size=constant(1)", "interval=(", `interval=file("\x00)`,
	} {
		f.Add(seed)
	}
	files := fstest.MapFS{
		"sizes": {Data: []byte("40\n1500\n1.5kB\n")},
		"times": {Data: []byte("1\n20us\n")},
		"bad":   {Data: []byte("-1\nx\n")},
	}
	p := model.Parser{Open: func(path string) (fs.File, error) { return files.Open(path) }}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := p.ParseModel(text)
		if err != nil {
			return
		}
		again, err := p.ParseModel(m.String())
		if err != nil || again.String() != m.String() {
			t.Fatalf("%q is written %s, read again %v, %v", text, m, again, err)
		}
		for _, d := range []model.Distribution{m.Interval, m.Size} {
			if mean := d.Mean(); mean < 0 || math.IsNaN(mean) {
				t.Fatalf("%s: mean %g", d, mean)
			}
		}
		flow, due := m.Flow(0), int64(0)
		var packets []model.Packet
		for range 20 {
			packet, more := flow.Next()
			if !more {
				break
			}
			if packet.Interval < 0 || int64(packet.Due) < due || packet.Size < 0 || packet.Size > 65535 {
				t.Fatalf("%s: %+v", m, packet)
			}
			due = int64(packet.Due)
			packets = append(packets, packet)
		}
		for _, fit := range m.Fit(packets, model.Options{}) {
			if !(fit.P >= 0 && fit.P <= 1) || math.IsNaN(fit.Statistic) || math.IsInf(fit.Statistic, 0) {
				t.Fatalf("%s: %+v", m, fit)
			}
		}
	})
}
