package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pillion.dev/measure/verdict"
)

// agreementFolder holds result folders, each with the estimates of this package in
// estimates.json. The Python package's test_agreement.py compares its own with them.
const agreementFolder = "testdata/agreement"

const estimatesFile = "estimates.json"

const twoFactors = `experiment: %s
seed: 7
factors: {mark: [none, delay, both], every: [1, 10]}
exclude: ["mark=none every=10"]
run: {command: "true"}
measures: {rate: {field: rate, unit: packets/s}, ns: {field: ns, unit: ns}}
response: {log_ratio: rate, to: {mark: none}}
targets:
  - {where: mark=both every=1, at_least: 0.9}
  - {where: "mark=both,delay every=10", at_least: 0.99}
  - {where: mark=delay, within: 5%%}
  - {where: mark=both, measure: ns, of: mean, at_most: 130}
  - {where: mark=both, measure: ns, at_most: 1.2}
design: {null_arm: true}
stop: %s
`

// Of these selections, all but the last contain cells that ratios are relative to.
const withBases = `experiment: %s
seed: 9
factors: {mark: [none, both], kind: [a, b]}
run: {command: "true"}
measures: {rate: {field: rate, unit: packets/s}, ns: {field: ns, unit: ns}}
response: {log_ratio: rate, to: {mark: none}}
targets:
  - {where: kind=a, at_least: 0.985}
  - {where: "mark=none,both", at_least: 0.985}
  - {where: kind=b, within: 3%%}
  - {where: kind=b, measure: ns, of: mean, at_most: 130}
  - {where: mark=both, at_least: 0.985}
stop: %s
`

const plainValues = `experiment: %s
seed: 8
factors: {family: [v6, v4]}
run: {command: "true"}
measures: {ns: {field: ns, unit: ns}}
targets: [{where: family=v6, measure: ns, at_most: 130}, {where: "family=v6,v4", measure: ns, at_least: 135}, {where: family=v4, measure: ns, at_least: 90}]
stop: %s
`

// agreements are experiments whose journals are simulated.
var agreements = []struct {
	name, text, stop string
	deviation        float64
	// blocks are complete; 0 for as many as the stop rule decides.
	blocks int
	// untidy: a part of the runs is invalid, one block is begun again, and a last one is
	// incomplete.
	untidy bool
	stage  string
}{
	{name: "fixed", text: twoFactors, stop: "{blocks: 9}", deviation: 0.05, blocks: 6, untidy: true, stage: StageFixed},
	{name: "pilot", text: twoFactors, stop: "{effect: mark, half_width: 9%, pilot: 5}", deviation: 0.02, stage: StageStein},
	{name: "stopped", text: twoFactors, stop: "{effect: mark, half_width: 5%, pilot: 4, most: 30}", deviation: 0.05, untidy: true, stage: StageStein},
	{name: "topped-up", text: twoFactors, stop: "{effect: mark, half_width: 5%, pilot: 3, most: 30}", deviation: 0.05, stage: StageTopUp},
	{name: "most", text: twoFactors, stop: "{effect: mark, half_width: 2%, pilot: 3, most: 6}", deviation: 0.05, stage: StageStein},
	{name: "budget", text: twoFactors, stop: "{effect: mark, half_width: 2%, pilot: 3, budget: 45s}", deviation: 0.05, blocks: 7, stage: StageStein},
	{name: "one-block", text: twoFactors, stop: "{blocks: 2}", deviation: 0.05, blocks: 1, stage: StageFixed},
	{name: "values", text: plainValues, stop: "{blocks: 5}", deviation: 0.1, blocks: 5, stage: StageFixed},
	{name: "with-bases", text: withBases, stop: "{blocks: 8}", deviation: 0.01, blocks: 8, stage: StageFixed},
}

// TestAgreement estimates the effects of journals, which another implementation does as well.
func TestAgreement(t *testing.T) {
	for seed, c := range agreements {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join(agreementFolder, c.name)
			text := fmt.Sprintf(c.text, c.name, c.stop)
			s := parse(t, text)
			if *update {
				started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				journal := linesOf(journalOf(s, c.deviation, c.blocks, c.untidy, started, rand.New(rand.NewPCG(uint64(seed), 1))))
				if err := os.RemoveAll(folder); err != nil {
					t.Fatal(err)
				}
				if err := Create(folder, s, []byte(text), map[string]any{"simulated": true}, started); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, JournalFile), journal, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := Compare(folder, s); err != nil {
				t.Fatal(err)
			}
			rows, torn, err := ReadJournal(folder)
			if err != nil || torn {
				t.Fatal(torn, err)
			}
			p := Progress(s, rows)
			if p.Decision.Stage != c.stage || c.untidy != (p.Invalid > 0 && p.Abandoned > 0) || p.OverBudget != (c.name == "budget") {
				t.Errorf("the journal is not what its name says: %+v", p)
			}
			got, err := json.MarshalIndent(estimates(p), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			path := filepath.Join(folder, estimatesFile)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the estimates differ from %s (%v):\n%s", path, err, got)
			}
		})
	}
}

// journalOf simulates a journal up to the end of its experiment.
func journalOf(s *Spec, deviation float64, blocks int, untidy bool, started time.Time, random *rand.Rand) []Row {
	var rows []Row
	add := func(turn Turn, attempt int, valid, kept bool) {
		log := deviation / math.Sqrt2 * random.NormFloat64()
		if turn.Cell.Levels["mark"] == "both" {
			log -= 0.03
		}
		row := Row{Block: turn.Block, Position: turn.Position, Cell: turn.Cell.Index, Factors: turn.Cell.Levels, Null: turn.Null,
			Attempt: attempt, Valid: valid, Kept: kept, Measures: map[string]float64{}, Seconds: 1,
			Started: started.Add(time.Duration(len(rows)) * time.Second)}
		if !valid {
			row.Why = "delivered < 0.999*packets"
		}
		for _, m := range s.Measures { // rounded, so that the file is readable
			mean := map[string]float64{"rate": 1000, "ns": 100}[m.Name]
			row.Measures[m.Name] = math.Round(1e4*mean*math.Exp(log+0.02*random.NormFloat64())) / 1e4
		}
		rows = append(rows, row)
	}
	for block := 0; ; block++ {
		order := s.Order(block)
		wanted := blocks
		if wanted == 0 {
			wanted = s.Decide(rows, Complete(rows, len(order))).Blocks
		}
		for i, turn := range order {
			switch {
			case block >= wanted && (!untidy || i > len(order)/2): // an incomplete block at most
				return rows
			case untidy && block == 1 && i < 2:
				add(turn, 1, true, false)
			case untidy && random.IntN(8) == 0:
				add(turn, 1, false, true)
				add(turn, 2, true, true)
				continue
			}
			add(turn, 1, true, true)
		}
	}
}

type agreedEstimate struct {
	Factor  string          `json:"factor,omitempty"`
	Level   string          `json:"level,omitempty"`
	Blocks  int             `json:"blocks"`
	Value   float64         `json:"value"`
	Low     *float64        `json:"low"`
	High    *float64        `json:"high"`
	Verdict verdict.Verdict `json:"verdict,omitempty"`
}

// estimates of an experiment; bounds that are not known are null. They are rounded, since
// processors differ in the last digits.
func estimates(p State) map[string]any {
	round := func(v float64) float64 {
		v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64)
		return v
	}
	of := func(e Estimate, low, high float64) agreedEstimate {
		a := agreedEstimate{Blocks: e.Blocks, Value: round(e.Ratio())}
		low, high = round(low), round(high)
		if e.Blocks > 1 {
			a.Low, a.High = &low, &high
		}
		return a
	}
	found := map[string]any{"blocks": p.Blocks, "finished": p.Finished}
	effects, targets := []agreedEstimate{}, []agreedEstimate{}
	for _, e := range p.Effects {
		low, high := e.Interval(Confidence)
		a := of(e.Estimate, low, high)
		a.Factor, a.Level = e.Factor, e.Level
		effects = append(effects, a)
	}
	for _, j := range p.Judged {
		a := of(j.Estimate, j.Low, j.High)
		a.Verdict = j.Verdict
		targets = append(targets, a)
	}
	found["effects"], found["targets"] = effects, targets
	if p.Null != nil {
		low, high := p.Null.Interval(Confidence)
		found["null"] = of(*p.Null, low, high)
	}
	if w := p.Width(); !math.IsInf(w, 0) {
		found["half_width"] = round(w)
	}
	return found
}
