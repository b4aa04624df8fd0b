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

// Cells returns the cells that are not excluded. The levels of the last factor vary fastest.
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

// Name returns the name of a cell: FACTOR=LEVEL for each factor, in the order of the experiment file, separated by
// spaces.
func (s *Spec) Name(c Cell) string {
	parts := make([]string, len(s.Factors))
	for i, f := range s.Factors {
		parts[i] = f.Name + "=" + c.Levels[f.Name]
	}
	return strings.Join(parts, " ")
}

// base selects the base cells, to which the response of other cells is relative.
func (r *Response) base() Where {
	w := Where{}
	for name, level := range r.To {
		w[name] = []string{level}
	}
	return w
}

// bases returns, for each cell, the index of the base cell to which its response is relative: of the cells
// that base selects, the one that shares most levels with the cell and, among equals, has the first level
// of most other factors.
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
	// Null says that the run belongs to the null arm: it repeats a base cell.
	Null    bool
	Attempt int
}

// Order returns the runs of a block in random order: each cell once and, with a null arm, each base
// cell a second time. The order depends only on the seed and the block.
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

// null returns the cells that the null arm repeats: the base cells or, if the responses of the experiment
// are not relative, the first cell.
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

// Applied is the treatment that a level of a factor applies.
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
