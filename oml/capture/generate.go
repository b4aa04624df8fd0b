package capture

import (
	"fmt"
	"math"

	"golang.org/x/net/bpf"
)

// generate compiles an expression.
func generate(tree node, shape shape) ([]bpf.Instruction, error) {
	g := &generator{shape: shape}
	yes, no := g.label(), g.label()
	tree.generate(g, yes, no)
	g.place(yes)
	g.add(bpf.RetConstant{Val: maxSnap})
	g.place(no)
	g.add(bpf.RetConstant{Val: 0})
	code, err := g.resolve()
	if err == nil && len(code) > codeMax {
		err = errTooLong
	}
	return code, err
}

var errTooLong = fmt.Errorf("%w: the expression is too long", ErrFilter)

// generator collects instructions with jumps to labels, all of them forward.
type generator struct {
	shape shape
	code  []instruction
	// places are the positions of labels: the number of the next instruction.
	places []int
}

// instruction is a plain one, or else a jump to labels.
type instruction struct {
	bpf.Instruction
	test    bpf.JumpTest
	value   uint32
	yes, no int
}

func (g *generator) label() int {
	g.places = append(g.places, -1)
	return len(g.places) - 1
}

func (g *generator) place(label int) { g.places[label] = len(g.code) }

func (g *generator) add(i bpf.Instruction) { g.code = append(g.code, instruction{Instruction: i}) }

func (g *generator) load(offset uint32, size int) { g.add(bpf.LoadAbsolute{Off: offset, Size: size}) }

func (g *generator) jump(test bpf.JumpTest, value uint32, yes, no int) {
	g.code = append(g.code, instruction{test: test, value: value, yes: yes, no: no})
}

// resolve turns labels into offsets.
func (g *generator) resolve() ([]bpf.Instruction, error) {
	code := make([]bpf.Instruction, 0, len(g.code))
	for at, i := range g.code {
		if i.Instruction != nil {
			code = append(code, i.Instruction)
			continue
		}
		yes, no := g.places[i.yes]-at-1, g.places[i.no]-at-1
		if yes > math.MaxUint8 || no > math.MaxUint8 {
			return nil, errTooLong
		}
		code = append(code, bpf.JumpIf{Cond: i.test, Val: i.value, SkipTrue: uint8(yes), SkipFalse: uint8(no)})
	}
	return code, nil
}
