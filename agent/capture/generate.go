package capture

import (
	"fmt"
	"math"

	"golang.org/x/net/bpf"
)

// generator collects instructions whose jumps go to labels, all of them forward.
type generator struct {
	shape shape
	code  []instruction
	// places of labels: the number of the next instruction.
	places []int
}

// instruction is one, or a jump: by a condition, or always.
type instruction struct {
	bpf.Instruction
	jump      bool
	test      bpf.JumpTest
	value     uint32
	yes, no   int
	condition bool
}

func (g *generator) label() int {
	g.places = append(g.places, -1)
	return len(g.places) - 1
}

func (g *generator) place(label int) { g.places[label] = len(g.code) }

func (g *generator) add(i bpf.Instruction) { g.code = append(g.code, instruction{Instruction: i}) }

func (g *generator) load(offset uint32, size int) { g.add(bpf.LoadAbsolute{Off: offset, Size: size}) }

func (g *generator) jump(test bpf.JumpTest, value uint32, yes, no int) {
	g.code = append(g.code, instruction{jump: true, condition: true, test: test, value: value, yes: yes, no: no})
}

func (g *generator) always(to int) { g.code = append(g.code, instruction{jump: true, yes: to}) }

// resolve turns labels into distances.
func (g *generator) resolve() ([]bpf.Instruction, error) {
	code := make([]bpf.Instruction, 0, len(g.code))
	for at, i := range g.code {
		if !i.jump {
			code = append(code, i.Instruction)
			continue
		}
		yes := g.places[i.yes] - at - 1
		if !i.condition {
			code = append(code, bpf.Jump{Skip: uint32(yes)})
			continue
		}
		no := g.places[i.no] - at - 1
		if yes > math.MaxUint8 || no > math.MaxUint8 {
			return nil, fmt.Errorf("%w: it is too long", ErrFilter)
		}
		code = append(code, bpf.JumpIf{Cond: i.test, Val: i.value, SkipTrue: uint8(yes), SkipFalse: uint8(no)})
	}
	return code, nil
}
