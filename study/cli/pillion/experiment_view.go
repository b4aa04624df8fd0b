package pillion

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/cli/pillion"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure/verdict"
	"pillion.dev/study/experiment"
)

// cellsText counts the runs of a block.
func cellsText(s *experiment.Spec) string {
	cells, runs := len(s.Cells()), len(s.Order(0))
	text := quantity.Count(cells, "cell")
	if runs > cells {
		text += fmt.Sprintf(" and %s of the null arm", quantity.Count(runs-cells, "run"))
	}
	return text + " in a block"
}

func showExperimentPlan(a *pillion.App, s *experiment.Spec, plan experiment.Plan) error {
	order := pillion.NewTable(">block", ">position", "cell", "null_arm")
	for _, block := range plan.Order {
		for _, turn := range block {
			null := "-"
			if turn.Null {
				null = "repeats the base"
			}
			order.Add(pillion.Count(turn.Block+1), pillion.Count(turn.Position+1), pillion.Text(s.Name(turn.Cell)), pillion.Text(null))
		}
	}
	type run struct {
		Block    int               `json:"block"`
		Position int               `json:"position"`
		Cell     int               `json:"cell"`
		Factors  map[string]string `json:"factors"`
		Null     bool              `json:"null"`
	}
	value := struct {
		Experiment string              `json:"experiment"`
		Cells      []map[string]string `json:"cells"`
		Order      []run               `json:"order"`
		Blocks     string              `json:"blocks"`
		BlockTime  string              `json:"block_time"`
		Duration   string              `json:"duration"`
	}{Experiment: s.Experiment, Blocks: plan.Blocks, BlockTime: plan.BlockTimeText(), Duration: plan.DurationText()}
	for _, c := range s.Cells() {
		value.Cells = append(value.Cells, c.Levels)
	}
	for _, block := range plan.Order {
		for _, t := range block {
			value.Order = append(value.Order, run{t.Block, t.Position, t.Cell.Index, t.Cell.Levels, t.Null})
		}
	}
	f := pillion.Facts{}
	f.Add("experiment", s.Experiment)
	for _, factor := range s.Factors {
		names := make([]string, len(factor.Levels))
		for i, l := range factor.Levels {
			names[i] = l.Name
		}
		f.Add("factor "+factor.Name, strings.Join(names, ", "))
	}
	f.Add("runs", cellsText(s))
	f.Add("blocks", plan.Blocks)
	f.Add("a block takes", plan.BlockTimeText())
	f.Add("duration", plan.DurationText())
	return a.ShowFacts(value, f, order)
}

// estimateColumn is the column of ratios; its field keeps its name whatever it holds.
func estimateColumn(s *experiment.Spec) string {
	switch ofMean := func(t experiment.Target) bool { return t.Of == experiment.OfMean }; {
	case s.Response == nil:
		return ">ratio=MEAN"
	case slices.ContainsFunc(s.Targets, ofMean):
		return ">ratio=ESTIMATE" // of some targets a mean, as their texts say
	}
	return ">ratio"
}

// showExperiment prints how far an experiment is and what it shows.
func showExperiment(a *pillion.App, s *experiment.Spec, folder string, p experiment.State) error {
	t := pillion.NewTable("what", estimateColumn(s), ">low", ">high", ">half_width=HALF-WIDTH", ">confidence", "verdict")
	type line struct {
		What      string   `json:"what"`
		Ratio     *float64 `json:"ratio"`
		Low       *float64 `json:"low"`
		High      *float64 `json:"high"`
		HalfWidth *float64 `json:"half_width"`
		// Confidence of the interval and its half-width: 0.9 of two one-sided tests.
		Confidence float64 `json:"confidence"`
		Verdict    string  `json:"verdict,omitempty"`
	}
	var lines []line
	add := func(what string, e experiment.Estimate, confidence float64, judged verdict.Verdict) {
		low, high := e.Interval(confidence)
		width, shown := e.HalfWidthAt(confidence), string(judged)
		if shown != "" && !p.Finished && !p.OverBudget {
			shown += " so far"
		}
		t.Add(pillion.Text(what), ratio(e.Ratio(), e.Blocks > 0), ratio(low, e.Blocks > 1), ratio(high, e.Blocks > 1),
			share(width), share(confidence), pillion.Text(shown))
		lines = append(lines, line{what, known(e.Ratio()), known(low), known(high), known(width), confidence, string(judged)})
	}
	for _, e := range p.Effects {
		add(e.Factor+"="+e.Level, e.Estimate, experiment.Confidence, "")
	}
	if p.Null != nil {
		add("null arm", *p.Null, experiment.Confidence, "")
	}
	for _, j := range p.Judged {
		add("target: "+j.Target.String(), j.Estimate, j.Confidence, j.Verdict)
	}
	differences, changes := experiment.EnvironmentFindings(folder)
	value := struct {
		Experiment string `json:"experiment"`
		Results    string `json:"results"`
		Blocks     int    `json:"blocks"`
		Of         int    `json:"of"`
		Stage      string `json:"stage"`
		Finished   bool   `json:"finished"`
		Quick      bool   `json:"quick,omitempty"`
		Ending     string `json:"ending"`
		Runs       int    `json:"runs"`
		Invalid    int    `json:"invalid"`
		Abandoned  int    `json:"abandoned"`
		Spent      string `json:"spent"`
		Left       string `json:"left"`
		Lines      []line `json:"lines"`
		// Differences between hosts, and changes of the environment since the beginning.
		Differences []string `json:"differences,omitempty"`
		Changes     []string `json:"changes,omitempty"`
	}{s.Experiment, folder, p.Blocks, p.Decision.Blocks, p.Decision.Stage, p.Finished, s.IsQuick(), p.Ending(), p.Runs, p.Invalid, p.Abandoned,
		quantity.FormatDuration(p.Spent.Round(time.Millisecond)), quantity.FormatDuration(p.Left.Round(time.Second)), lines, differences, changes}
	f := pillion.Facts{}
	f.Add("experiment", s.Experiment)
	f.Add("results", folder)
	f.Add("state", p.Ending())
	if s.IsQuick() {
		f.Add("quick", "a proof that the experiment works; no figures")
	}
	f.Add("blocks", fmt.Sprintf("%d of %d (%s)", p.Blocks, p.Decision.Blocks, p.StageText()))
	f.Add("runs", fmt.Sprintf("%d, of which %d invalid, %d repeated after an interruption", p.Runs, p.Invalid, p.Abandoned))
	f.Add("time", quantity.FormatDuration(p.Spent.Round(100*time.Millisecond)))
	if p.Left > 0 {
		f.Add("left", "about "+quantity.FormatDuration(p.Left.Round(time.Second)))
	}
	for _, text := range differences {
		f.Add("the hosts differ", text)
	}
	for _, text := range changes {
		f.Add("environment changed", text)
	}
	return a.ShowFacts(value, f, t)
}

func ratio(v float64, has bool) pillion.Cell {
	if !has || known(v) == nil {
		return pillion.Text("")
	}
	return pillion.NewCell(strconv.FormatFloat(v, 'f', 4, 64), strconv.FormatFloat(v, 'g', -1, 64))
}

func share(v float64) pillion.Cell {
	if known(v) == nil {
		return pillion.Text("")
	}
	return pillion.NewCell(experiment.Percent(v), strconv.FormatFloat(v, 'g', -1, 64))
}

// known is nil for what JSON cannot hold.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
