package experiment

import (
	"math"
	"strings"
	"testing"

	"pillion.dev/measure/verdict"
)

const absolute = `experiment: demo
factors: {family: [v6, v4]}
run: {command: "true"}
measures: {ns: {field: ns}}
targets: [{where: family=v6, measure: ns, at_most: 17}, {where: "family=v6,v4", measure: ns, at_least: 11}, {where: family=v4, measure: ns, at_most: 17}]
stop: {blocks: 3}
`

// TestTargetsOfPlainValues checks intervals by hand: of 10, 12 and 14 the deviation is 2, and
// t(0.975, 2) is 4.302653.
func TestTargetsOfPlainValues(t *testing.T) {
	s := parse(t, absolute)
	var rows []Row
	for block, ns := range []float64{10, 12, 14} {
		for _, turn := range s.Order(block) {
			value := ns
			if turn.Cell.Levels["family"] == "v4" {
				value += 10
			}
			rows = append(rows, Row{Block: block, Position: turn.Position, Cell: turn.Cell.Index, Factors: turn.Cell.Levels,
				Attempt: 1, Valid: true, Kept: true, Measures: map[string]float64{"ns": value}})
		}
	}
	half := 4.302653 * 2 / math.Sqrt(3)
	for i, want := range []struct {
		mean    float64
		verdict verdict.Verdict
	}{{12, verdict.Met}, {17, verdict.Met}, {22, verdict.Missed}} {
		j := s.Judge(rows, 3)[i]
		if math.Abs(j.Ratio()-want.mean) > 1e-9 || math.Abs(j.Low-(want.mean-half)) > 1e-5 || math.Abs(j.High-(want.mean+half)) > 1e-5 ||
			math.Abs(j.HalfWidth()-half/want.mean) > 1e-5 || j.Verdict != want.verdict {
			t.Errorf("target %d: mean %g [%g, %g] ± %g, %s; want %+v", i, j.Ratio(), j.Low, j.High, j.HalfWidth(), j.Verdict, want)
		}
	}
	if j := s.Judge(rows, 1)[0]; j.Verdict != verdict.Undecided || !math.IsInf(j.Low, -1) {
		t.Errorf("after one block: %+v", j)
	}
}

func TestTargetsWithoutResponse(t *testing.T) {
	for _, test := range []struct{ target, want string }{
		{"{where: family=v6, at_most: 17}", "measure: is required without a response"},
		{"{where: family=v6, measure: ns, within: 2%}", "within: needs a response"},
		{"{where: family=v6, measure: luck, at_most: 17}", `no measure "luck"`},
	} {
		text := strings.Replace(absolute, absolute[strings.Index(absolute, "targets:"):strings.Index(absolute, "stop:")],
			"targets: ["+test.target+"]\n", 1)
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.target, err, test.want)
		}
	}
	text := strings.Replace(absolute, "at_most: 17}, {where: \"", "at_most: -3}, {where: \"", 1)
	if _, err := Parse([]byte(text)); err != nil {
		t.Errorf("a negative bound of a plain value: %v", err)
	}
}
