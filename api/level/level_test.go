package level

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
)

func TestWorst(t *testing.T) {
	for want, l := range map[string]*pillionv1.ServiceLevel{
		"": {}, "met": {AvailabilityVerdict: "met", LossVerdict: "met"}, "missed": {AvailabilityVerdict: "missed", DelayVerdict: "undecided", LossVerdict: "met"},
		"undecided": {AvailabilityVerdict: "met", DelayVerdict: "undecided", LossVerdict: "met"},
	} {
		if got := Worst(l); got != want {
			t.Errorf("%v: %s", l, got)
		}
	}
}

// TestFiles: both files have the pair, its figures, and nothing where nothing is known; the goldens of the command line show them whole.
func TestFiles(t *testing.T) {
	month, err := ParseMonth("2026-11")
	if err != nil {
		t.Fatal(err)
	}
	r := Report{Request: &pillionv1.ServiceLevelsRequest{From: timestamppb.New(month), To: timestamppb.New(month.AddDate(0, 1, 0)), Quantile: 0.9, Outage: 0.2, DelayNs: 2e6}}
	nan := math.NaN()
	r.Add(&pillionv1.ServiceLevelsResponse{To: timestamppb.New(month.Add(time.Hour)), Found: 2, Level: &pillionv1.ServiceLevel{
		Source: "a", Destination: "b<", Up: 59, Down: 1, Availability: 59.0 / 60, Expected: 10, Loss: 0.5, LossLow: nan, LossHigh: nan,
		Delays: 5, DelayNs: 1.5e6, DelayLowNs: nan, DelayHighNs: nan, DelayVerdict: "undecided", ClockUnknown: 0.5, StepMs: 60_000, Blocks: 1, BlockMs: 3600_000, Sampled: 1,
	}})
	var csv, html strings.Builder
	if err := r.WriteCSV(&csv); err != nil {
		t.Fatal(err)
	}
	if want := "a,b<,0.9833333333333333,,59,1,0,1500000,,,undecided,,0.5,,,,10,60,1,3600,1\r\n"; !strings.HasSuffix(csv.String(), want) {
		t.Errorf("got %q, want the end %q", csv.String(), want)
	}
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"November 2026", "1 of 2 pairs", "b&lt;", "1.50 ms", "no interval: clock error unknown", "no interval: fewer than 10 blocks", "the month so far, until 1 November 2026 01:00 UTC", "98.333 %", "undecided", "2.00 ms"} {
		if !strings.Contains(html.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// TestFileOfAScope: the page says what it is limited to, sorts pairs by their verdicts, and shows numbers that people can read.
func TestFileOfAScope(t *testing.T) {
	month, _ := ParseMonth("2026-11")
	end := timestamppb.New(month.AddDate(0, 1, 0))
	r := Report{Request: &pillionv1.ServiceLevelsRequest{From: timestamppb.New(month), To: end, Quantile: 0.99, Availability: 0.999}, Limits: []string{"customer=acme", "a:b"}}
	for source, l := range map[string]*pillionv1.ServiceLevel{"kept": {AvailabilityVerdict: "met", Silent: 37_838, Up: 180}, "broken": {AvailabilityVerdict: "missed", Silent: 150, Expected: 1_520_680, StepMs: 60_000, Up: 9000, Down: 47}} {
		l.Source = source
		r.Add(&pillionv1.ServiceLevelsResponse{To: end, Found: 2, Level: l})
	}
	var html strings.Builder
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	text := html.String()
	for _, want := range []string{"Limited to what the token sees: customer=acme, a:b", "one way each · until 1 December 2026", "47 min down, <span>2.5 h without", `<span class="undecided">26.3 d without traffic`, "1\u202f520\u202f680 packets", "Delay, P99"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q: %s", want, text[strings.Index(text, "<body>"):])
		}
	}
	if strings.Contains(text, "windows of 1 min") || strings.Index(text, "broken") > strings.Index(text, "kept") {
		t.Error("order, or windows of a minute")
	}
}

func FuzzParseMonth(f *testing.F) {
	f.Add("2026-11")
	f.Fuzz(func(t *testing.T, text string) {
		if month, err := ParseMonth(text); err == nil && month.Format(MonthForm) != text {
			t.Errorf("%q is read as %v", text, month)
		}
	})
}
