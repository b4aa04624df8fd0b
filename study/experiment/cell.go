package experiment

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Cell is a combination of levels, one of each factor.
type Cell struct {
	Index  int
	Levels map[string]string
}

// Cells returns those that are not excluded; the levels of the last factor vary fastest.
func (s *Spec) Cells() []Cell {
	var cells []Cell
	choice := make([]int, len(s.Factors))
	for {
		levels := map[string]string{}
		for i, f := range s.Factors {
			levels[f.Name] = f.Levels[choice[i]].Name
		}
		if !s.excluded(levels) {
			cells = append(cells, Cell{len(cells), levels})
		}
		i := len(choice) - 1
		for ; i >= 0; i-- {
			if choice[i]++; choice[i] < len(s.Factors[i].Levels) {
				break
			}
			choice[i] = 0
		}
		if i < 0 {
			return cells
		}
	}
}

func (s *Spec) excluded(levels map[string]string) bool {
	for _, w := range s.Exclude {
		if w.fits(levels) {
			return true
		}
	}
	return false
}

// Name writes a cell as a selection, with the factors in the order of the file.
func (s *Spec) Name(c Cell) string {
	parts := make([]string, len(s.Factors))
	for i, f := range s.Factors {
		parts[i] = f.Name + "=" + c.Levels[f.Name]
	}
	return strings.Join(parts, " ")
}

// base selects the cells that a response is relative to.
func (r *Response) base() Where {
	w := Where{}
	for name, level := range r.To {
		w[name] = []string{level}
	}
	return w
}

// bases returns, for each cell, the index of the cell that its response is relative to: of
// those with the levels of the response, the one that shares most levels with the cell, and
// that has most base levels otherwise.
func (s *Spec) bases(cells []Cell) ([]int, error) {
	of := make([]int, len(cells))
	for i, c := range cells {
		best, bestScore := -1, -1
		for j, candidate := range cells {
			if !s.Response.base().fits(candidate.Levels) {
				continue
			}
			score := 0
			for _, f := range s.Factors {
				switch level := candidate.Levels[f.Name]; {
				case s.Response.To[f.Name] != "":
				case level == c.Levels[f.Name]:
					score += len(s.Factors) + 1
				case level == f.Levels[0].Name:
					score++
				}
			}
			if score > bestScore {
				best, bestScore = j, score
			}
		}
		if best < 0 {
			return nil, fmt.Errorf("no cell has %s, which ratios are relative to", s.Response.base())
		}
		of[i] = best
	}
	return of, nil
}

// Turn is one run of a block.
type Turn struct {
	Block, Position int
	Cell            Cell
	// Null: the repeated base.
	Null    bool
	Attempt int
}

// Order returns the runs of a block in their order: each cell once and, with a null arm,
// each base again. It depends on the seed and the block only.
func (s *Spec) Order(block int) []Turn {
	cells := s.Cells()
	var turns []Turn
	for _, c := range cells {
		turns = append(turns, Turn{Cell: c})
	}
	if s.Design.NullArm {
		for _, c := range s.null(cells) {
			turns = append(turns, Turn{Cell: c, Null: true})
		}
	}
	random := rand.New(rand.NewPCG(s.Seed, uint64(block)))
	random.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	for i := range turns {
		turns[i].Block, turns[i].Position = block, i
	}
	return turns
}

// null returns the cells that the null arm repeats: those that others are relative to or,
// without a response, the first one.
func (s *Spec) null(cells []Cell) []Cell {
	if s.Response == nil {
		return cells[:1]
	}
	of, err := s.bases(cells)
	if err != nil {
		return nil
	}
	var bases []Cell
	for i, c := range cells {
		if of[i] == i {
			bases = append(bases, c)
		}
	}
	return bases
}

// Applied is the treatment of a level.
type Applied struct {
	Factor, Level string
	Treatment
}

// TreatmentsOf returns the treatments of a cell in the order in which they are applied.
func (s *Spec) TreatmentsOf(c Cell) []Applied {
	var list []Applied
	for _, f := range s.Factors {
		if t, ok := s.Treatments[f.Name][c.Levels[f.Name]]; ok {
			list = append(list, Applied{f.Name, c.Levels[f.Name], t})
		}
	}
	return list
}
