package experiment

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pillion.dev/measure/verdict"
)

// simulated returns the rows of blocks whose logarithmic ratios have a deviation.
func simulated(s *Spec, blocks int, deviation float64, effect map[string]float64, random *rand.Rand) []Row {
	var rows []Row
	for block := range blocks {
		for _, turn := range s.Order(block) {
			log := 5 + deviation/math.Sqrt2*random.NormFloat64() + effect[turn.Cell.Levels["mark"]]
			rows = append(rows, Row{Block: block, Position: turn.Position, Cell: turn.Cell.Index, Factors: turn.Cell.Levels,
				Null: turn.Null, Attempt: 1, Valid: true, Kept: true, Measures: map[string]float64{"rate": math.Exp(log)}, Seconds: 1})
		}
	}
	return rows
}

const simple = `experiment: demo
factors: {mark: [none, both]}
run: {command: "true"}
measures: {rate: {field: rate}}
response: {log_ratio: rate, to: {mark: none}}
targets: [{where: mark=both, at_least: 0.95}]
design: {null_arm: true}
stop: {effect: mark, half_width: 2%, pilot: 12, most: 200}
`

// TestStein checks the number against the formula by hand: t(0.975, 11) = 2.200985.
func TestStein(t *testing.T) {
	s := parse(t, simple)
	rows := simulated(s, 12, 0.05, nil, rand.New(rand.NewPCG(1, 2)))
	if d := s.Decide(rows[:9], Complete(rows[:9], 3)); d.Blocks != 12 || d.Stage != StagePilot {
		t.Errorf("the first decision is %+v", d)
	}
	deviation := s.Effects(rows, 12, "mark")[0].Deviation
	want := int(math.Ceil(math.Pow(2.200985*deviation/math.Log(1.02), 2)))
	if d := s.Decide(rows, 12); d.Blocks != want || d.Stage != StageStein || want < 13 {
		t.Errorf("the second decision is %+v, want %d", d, want)
	}
}

// TestDecisionIsStable: while blocks are added, the decision changes when a stage ends only.
func TestDecisionIsStable(t *testing.T) {
	s := parse(t, simple)
	for seed := range uint64(200) {
		rows := simulated(s, 200, 0.04, nil, rand.New(rand.NewPCG(seed, 0)))
		last, changes := Decision{}, 0
		for complete := 0; complete <= 200; complete++ {
			d := s.Decide(rows[:3*complete], complete)
			if d != last {
				if last.Blocks > complete {
					t.Fatalf("seed %d: the decision changed from %+v to %+v after %d blocks", seed, last, d, complete)
				}
				last, changes = d, changes+1
			}
			if complete >= d.Blocks {
				break
			}
		}
		if changes > 3 {
			t.Fatalf("seed %d: %d decisions", seed, changes)
		}
	}
}

// TestDecisionIgnoresSignificance: the same deviations need the same blocks, whatever the
// effect is.
func TestDecisionIgnoresSignificance(t *testing.T) {
	s := parse(t, simple)
	for seed := range uint64(20) {
		without := simulated(s, 12, 0.04, nil, rand.New(rand.NewPCG(seed, 0)))
		with := simulated(s, 12, 0.04, map[string]float64{"both": -0.5}, rand.New(rand.NewPCG(seed, 0)))
		if a, b := s.Decide(without, 12), s.Decide(with, 12); a != b {
			t.Errorf("seed %d: %+v without and %+v with an effect", seed, a, b)
		}
	}
}

// TestCoverage simulates whole experiments. The oracle is the truth of the simulation:
// after the stop rule, 95 % intervals hold it in at least 94 % of 2,000 experiments, and the
// width is reached.
func TestCoverage(t *testing.T) {
	s := parse(t, simple)
	const experiments = 2000
	random := rand.New(rand.NewPCG(7, 7))
	covered, wide, falseAlarms := 0, 0, 0
	for range experiments {
		rows := simulated(s, 80, 0.03, map[string]float64{"both": -0.04}, random)
		complete := 0
		for complete < s.Decide(rows[:3*complete], complete).Blocks && complete < 80 {
			complete++
		}
		e := s.Effects(rows, complete, "mark")[0]
		low, high := e.Interval(Confidence)
		if truth := math.Exp(-0.04); low <= truth && truth <= high {
			covered++
		}
		if e.HalfWidth() > 0.021 {
			wide++
		}
		null, _ := s.Null(rows, complete)
		if low, high := null.Interval(Confidence); low > 1 || high < 1 {
			falseAlarms++
		}
	}
	t.Logf("coverage %.1f %%, wider than wanted %.1f %%, false positives of the null arm %.1f %%",
		100*float64(covered)/experiments, 100*float64(wide)/experiments, 100*float64(falseAlarms)/experiments)
	if covered < 94*experiments/100 {
		t.Errorf("%d of %d intervals hold the truth", covered, experiments)
	}
	if wide > experiments/20 {
		t.Errorf("%d of %d are wider than wanted", wide, experiments)
	}
	if falseAlarms > 6*experiments/100 {
		t.Errorf("%d of %d null arms differ from the base", falseAlarms, experiments)
	}
}

func TestVerdicts(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	share := Share(0.02)
	for name, c := range map[string]struct {
		target          Target
		mean, deviation float64
		want            verdict.Verdict
	}{
		"met":             {Target{AtLeast: number(0.95)}, -0.02, 0.01, verdict.Met},
		"missed":          {Target{AtLeast: number(0.95)}, -0.10, 0.01, verdict.Missed},
		"undecided":       {Target{AtLeast: number(0.95)}, -0.05, 0.03, verdict.Undecided},
		"at most met":     {Target{AtMost: number(1.05)}, 0.02, 0.01, verdict.Met},
		"at most missed":  {Target{AtMost: number(1.05)}, 0.10, 0.01, verdict.Missed},
		"equal":           {Target{Within: &share}, 0.001, 0.005, verdict.Met},
		"not equal":       {Target{Within: &share}, 0.10, 0.005, verdict.Missed},
		"too wide to say": {Target{Within: &share}, 0, 0.10, verdict.Undecided},
		"value met":       {Target{Of: OfMean, AtMost: number(0)}, -0.02, 0.01, verdict.Met},
		"value missed":    {Target{Of: OfMean, AtLeast: number(2)}, 1.9, 0.1, verdict.Missed},
		"value undecided": {Target{Of: OfMean, AtLeast: number(2)}, 1.99, 0.1, verdict.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			if j := judge(c.target, Estimate{20, 19, c.mean, c.deviation, c.target.Of == OfMean}); j.Verdict != c.want {
				t.Errorf("verdict is %s for an interval from %.3f to %.3f", j.Verdict, j.Low, j.High)
			}
			if j := judge(c.target, Estimate{20, 19, c.mean, c.deviation, false}); (c.target.Within != nil) != (j.Confidence < Confidence) ||
				math.Abs(math.Log(j.High/j.Low)/2-math.Log1p(j.HalfWidthAt(j.Confidence))) > 1e-9 {
				t.Errorf("half-width at %g is not that of the interval: %+v", j.Confidence, j)
			}
			if j := judge(c.target, Estimate{1, 0, c.mean, 0, c.target.Of == OfMean}); j.Verdict != verdict.Undecided {
				t.Errorf("one block is %s", j.Verdict)
			}
		})
	}
}

// A target of a value counts the measure itself, whatever the response, and also without one.
func TestTargetOfMean(t *testing.T) {
	const ratio, value = "targets: [{where: mark=both, at_least: 0.95}]", "targets: [{where: mark=both, measure: rate, of: mean, at_least: 1}]"
	with := strings.Replace(simple, ratio, value, 1)
	without := strings.NewReplacer("of: mean, ", "", "response: {log_ratio: rate, to: {mark: none}}\n", "", "effect: mark, half_width: 2%, pilot: 12, most: 200", "blocks: 4").Replace(with)
	for name, text := range map[string]string{"with a response": with, "without a response": without} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, text)
			rows := simulated(s, 4, 0.01, nil, rand.New(rand.NewPCG(1, 2)))
			var sum, n float64
			for _, row := range rows {
				if !row.Null && row.Factors["mark"] == "both" {
					sum, n = sum+row.Measures["rate"], n+1
				}
			}
			j := s.Judge(rows, 4)[0]
			if math.Abs(j.Ratio()-sum/n) > 1e-9*sum/n || !(j.Low < j.Ratio() && j.Ratio() < j.High) || j.Verdict != verdict.Met {
				t.Errorf("%+v, the mean is %g", j, sum/n)
			}
		})
	}
}

// TestEnding: a budget that is over is no result about the effect.
func TestEnding(t *testing.T) {
	s := parse(t, strings.Replace(simple, "most: 200", "most: 200, budget: 40s", 1))
	rows := simulated(s, 13, 0.05, nil, rand.New(rand.NewPCG(1, 2)))
	p := Progress(s, rows)
	if !p.OverBudget || p.Finished || !strings.Contains(p.Ending(), "the budget of 40s is spent: the half-width reached is ") {
		t.Errorf("the ending is %q", p.Ending())
	}
	s.Stop.Budget, s.Stop.Most = 0, 13
	if p := Progress(s, rows); !p.Finished || !strings.Contains(p.Ending(), "finished at the limit of 13 blocks: the half-width reached is ") {
		t.Errorf("the ending is %q", p.Ending())
	}
}

// TestImpossibleBudget: a budget that does not suffice for a block is a mistake.
func TestImpossibleBudget(t *testing.T) {
	for budget, want := range map[string]bool{"1s": false, "4s": true} {
		text := strings.NewReplacer(`run: {`, `run: {duration: 1s, `, "pilot: 12", "budget: "+budget).Replace(simple)
		_, err := Parse([]byte(text))
		if want != (err == nil) || err != nil && !strings.Contains(err.Error(), "line 8: stop.budget: 1s does not suffice for a block, which takes 3.3s, from run.duration") {
			t.Errorf("%s: error is %v", budget, err)
		}
	}
}

// TestUnfinished: the state names why the last run does not count, and a pilot that suffices.
func TestUnfinished(t *testing.T) {
	s := parse(t, simple)
	rows := simulated(s, 12, 0.001, nil, rand.New(rand.NewPCG(1, 2)))
	if text := Progress(s, rows).StageText(); text != "the pilot suffices" {
		t.Errorf("the stage is %q", text)
	}
	rows = append(rows[:9], Row{Block: 3, Kept: true, Why: "rate < 5 (rate is 4)"})
	if p := Progress(s, rows); p.StageText() != StagePilot || p.Ending() != "unfinished: 3 of 12 blocks; the last run was invalid: rate < 5 (rate is 4)" {
		t.Errorf("%q: the ending is %q", p.StageText(), p.Ending())
	}
}
