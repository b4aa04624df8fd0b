package experiment

import (
	"math"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// blockRatios are the logarithmic ratios of one block, by cell; the null arm of a base is
// relative to that base.
type blockRatios struct {
	cells map[int]float64
	null  map[int]float64
}

// ratios computes the logarithmic ratios of a measure in each complete block.
func (s *Spec) ratios(rows []Row, blocks int, measure string) []blockRatios {
	cells := s.Cells()
	bases, err := s.bases(cells)
	if err != nil || s.Response == nil {
		return nil
	}
	logs := make([]blockRatios, blocks)
	for _, row := range rows {
		if !row.Kept || !row.Valid || row.Block >= blocks || row.Cell >= len(cells) {
			continue
		}
		b := &logs[row.Block]
		if b.cells == nil {
			b.cells, b.null = map[int]float64{}, map[int]float64{}
		}
		into := b.cells
		if row.Null {
			into = b.null
		}
		into[row.Cell] = math.Log(row.Measures[measure])
	}
	for _, b := range logs {
		base := map[int]float64{}
		for i := range cells {
			base[i] = b.cells[bases[i]]
		}
		for i := range b.cells {
			b.cells[i] -= base[i]
		}
		for i := range b.null {
			b.null[i] -= base[i]
		}
	}
	return logs
}

// compared returns what a target is compared with: logarithmic ratios, or the values of the
// measure.
func (s *Spec) compared(rows []Row, blocks int, t Target) []blockRatios {
	if t.Of == OfRatio {
		return s.ratios(rows, blocks, t.Measure)
	}
	cells := len(s.Cells())
	values := make([]blockRatios, blocks)
	for _, row := range rows {
		if !row.Kept || !row.Valid || row.Null || row.Block >= blocks || row.Cell >= cells {
			continue
		}
		if values[row.Block].cells == nil {
			values[row.Block].cells = map[int]float64{}
		}
		values[row.Block].cells[row.Cell] = row.Measures[t.Measure]
	}
	return values
}

// Estimate is the mean of logarithmic ratios over blocks.
type Estimate struct {
	Blocks int
	// Freedom are the degrees of freedom of Student's t.
	Freedom int
	// Mean and Deviation are logarithms, unless Plain says that they are of the values.
	Mean, Deviation float64
	Plain           bool
}

// freedom returns the degrees of freedom of an interval over a number of blocks. After the stop rule they are the
// pilot's, as in Stein's interval: experiments whose deviation is small by chance stop early, and with the degrees
// of freedom of all blocks their intervals contain the true value too rarely (docs/explanation/statistics.md).
func (s *Spec) freedom(blocks int) int {
	if s.Stop.Pilot > 0 {
		blocks = min(blocks, s.Stop.Pilot)
	}
	return blocks - 1
}

// estimate returns the mean over blocks of the mean over some cells.
func (s *Spec) estimate(blocks []blockRatios, cells []int) Estimate {
	var values []float64
	for _, b := range blocks {
		sum := 0.0
		for _, i := range cells {
			sum += b.cells[i]
		}
		values = append(values, sum/float64(len(cells)))
	}
	e := Estimate{Blocks: len(values), Freedom: s.freedom(len(values))}
	if e.Blocks > 0 {
		e.Mean = stat.Mean(values, nil)
	}
	if e.Blocks > 1 {
		e.Deviation = stat.StdDev(values, nil)
	}
	return e
}

// quantile is the quantile of Student's t distribution for a two-sided interval.
func quantile(confidence float64, freedom int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(freedom)}.Quantile((1 + confidence) / 2)
}

// halfWidth of the interval of the logarithm; infinite below two blocks.
func (e Estimate) halfWidth(confidence float64) float64 {
	if e.Blocks < 2 {
		return math.Inf(1)
	}
	return quantile(confidence, e.Freedom) * e.Deviation / math.Sqrt(float64(e.Blocks))
}

// Interval is the confidence interval of the ratio, or of the mean of plain values.
func (e Estimate) Interval(confidence float64) (low, high float64) {
	h := e.halfWidth(confidence)
	if e.Plain {
		return e.Mean - h, e.Mean + h
	}
	return math.Exp(e.Mean - h), math.Exp(e.Mean + h)
}

// Ratio is the geometric mean of the ratios, or the mean of plain values.
func (e Estimate) Ratio() float64 {
	if e.Plain {
		return e.Mean
	}
	return math.Exp(e.Mean)
}

// HalfWidth is half the width of the 95 % interval, as a share of the ratio.
func (e Estimate) HalfWidth() float64 { return e.HalfWidthAt(Confidence) }

// HalfWidthAt is half the width of the interval of a confidence, as a share of the ratio.
func (e Estimate) HalfWidthAt(confidence float64) float64 {
	if e.Plain {
		return e.halfWidth(confidence) / math.Abs(e.Mean)
	}
	return math.Expm1(e.halfWidth(confidence))
}

// Effect is the ratio of one level of the factor of the stop rule to its base.
type Effect struct {
	Factor, Level string
	Estimate
}

// Effects estimates the levels of a factor, each over all cells that have it. With a null arm, the last effect,
// without a level, is the effect of the null arm, whose true ratio is 1.
func (s *Spec) Effects(rows []Row, blocks int, factor string) []Effect {
	if s.Response == nil {
		return nil
	}
	logs := s.ratios(rows, blocks, s.Response.LogRatio)
	cells := s.Cells()
	var effects []Effect
	i := s.Factors.find(factor)
	for _, level := range s.Factors[i].Levels {
		if level.Name == s.Response.To[factor] {
			continue
		}
		var with []int
		for _, c := range cells {
			if c.Levels[factor] == level.Name {
				with = append(with, c.Index)
			}
		}
		if len(with) > 0 {
			effects = append(effects, Effect{factor, level.Name, s.estimate(logs, with)})
		}
	}
	return effects
}

// Null estimates the ratio of the null arm to the base, which is 1 but for noise; without a
// null arm it is absent.
func (s *Spec) Null(rows []Row, blocks int) (Estimate, bool) {
	if s.Response == nil || !s.Design.NullArm {
		return Estimate{}, false
	}
	logs := s.ratios(rows, blocks, s.Response.LogRatio)
	var indices []int
	for _, c := range s.null(s.Cells()) {
		indices = append(indices, c.Index)
	}
	for i := range logs {
		logs[i].cells = logs[i].null
	}
	return s.estimate(logs, indices), true
}

// Decision says how many blocks there are to be.
type Decision struct {
	// Blocks is the number that is known so far.
	Blocks int
	// Stage is pilot, stein, top-up or fixed.
	Stage string
	// Wanted is what the formula asks for, if that is more than the most that are allowed.
	Wanted int
}

// Stages of a decision.
const (
	StageFixed = "fixed number"
	StagePilot = "pilot"
	StageStein = "second stage"
	StageTopUp = "top-up"
)

// Decide returns how many blocks there are to be, from the complete blocks so far. It
// depends on nothing else, so that an experiment that was interrupted decides the same. It
// looks at widths only, never at whether an effect is significant, and at most three times:
// after the pilot (Stein 1945), and once more when that number is reached.
func (s *Spec) Decide(rows []Row, complete int) Decision {
	if s.Stop.Blocks > 0 {
		return Decision{Blocks: s.Stop.Blocks, Stage: StageFixed}
	}
	if complete < s.Stop.Pilot {
		return Decision{Blocks: s.Stop.Pilot, Stage: StagePilot}
	}
	second := s.stein(rows, s.Stop.Pilot, StageStein)
	if complete < second.Blocks || second.Blocks >= s.Stop.Most || s.width(rows, second.Blocks) <= s.logHalfWidth() {
		return second
	}
	topUp := s.stein(rows, second.Blocks, StageTopUp)
	if topUp.Blocks <= second.Blocks { // the width is missed by less than a block makes up for
		return second
	}
	return topUp
}

func (s *Spec) logHalfWidth() float64 { return math.Log1p(float64(s.Stop.HalfWidth)) }

// width is the largest half-width of the effects after a number of blocks.
func (s *Spec) width(rows []Row, blocks int) float64 {
	widest := 0.0
	for _, e := range s.Effects(rows, blocks, s.Stop.Effect) {
		widest = max(widest, e.halfWidth(Confidence))
	}
	return widest
}

// stein is the number of blocks that follows from the deviation of the first ones.
func (s *Spec) stein(rows []Row, first int, stage string) Decision {
	d := Decision{Blocks: first, Stage: stage}
	for _, e := range s.Effects(rows, first, s.Stop.Effect) {
		n := math.Ceil(math.Pow(quantile(Confidence, e.Freedom)*e.Deviation/s.logHalfWidth(), 2))
		d.Blocks = max(d.Blocks, int(min(n, 1e9)))
	}
	if d.Blocks > s.Stop.Most {
		d.Wanted, d.Blocks = d.Blocks, s.Stop.Most
	}
	return d
}

// Spent is the time of all runs so far, those that do not count and preparations included.
func Spent(rows []Row) time.Duration {
	seconds := 0.0
	for _, row := range rows {
		seconds += row.Seconds + row.Prepared
	}
	return time.Duration(seconds * float64(time.Second))
}

// BlockTime is the mean time of a complete block, invalid runs included; 0 before the first.
func BlockTime(rows []Row, complete int) time.Duration {
	if complete == 0 {
		return 0
	}
	seconds := 0.0
	for _, row := range rows {
		if row.Kept && row.Block < complete {
			seconds += row.Seconds
		}
	}
	return time.Duration(seconds / float64(complete) * float64(time.Second))
}
