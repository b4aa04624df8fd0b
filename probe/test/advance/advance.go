// Package advance measures what a program at TC ingress costs for each packet of a flow
// with marks in UDP options. Of BPF_PROG_TEST_RUN alone every run meets the same packet;
// a program in front of the measured one makes it the next. The package is for
// experiments only.
package advance

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"pillion.dev/internal/clock"
)

// Flow says what the packets are like.
type Flow struct {
	Frame      []byte // with the option at its end, and even UDP length
	StampEvery uint32 // one packet in N has a time; 0 means none
	Spread     uint32 // of delays, ns: a power of two minus one
}

// optionLength is the size of struct wire_udp_option.
const optionLength = 14

// Runner feeds one flow to a program.
type Runner struct {
	objects advanceObjects
	empty   *ebpf.Program
	frame   []byte
}

// Open loads the program in front.
func Open(flow Flow) (*Runner, error) {
	spec, err := loadAdvance()
	if err != nil {
		return nil, err
	}
	state, err := clock.Read()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		advanceVarOptionAt: uint32(len(flow.Frame) - optionLength), advanceVarStampEvery: flow.StampEvery,
		advanceVarSpreadMask: flow.Spread, advanceVarTaiOffsetNs: uint64(state.TAIOffset),
		advanceVarNumber: rand.Uint32N(1<<15) << 16, // a flow that begins, as of a source
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	r := &Runner{frame: flow.Frame}
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		return nil, fmt.Errorf("load advance: %w", err)
	}
	r.empty, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		r.objects.Close()
		return nil, fmt.Errorf("load empty program: %w", err)
	}
	return r, nil
}

// Close frees the programs.
func (r *Runner) Close() error {
	r.empty.Close()
	return r.objects.Close()
}

// Above is how much longer a packet takes with the program than with an empty one. The
// empty one runs before and after it.
func (r *Runner) Above(program *ebpf.Program, packets int) (time.Duration, error) {
	var took [3]time.Duration
	for i, p := range []*ebpf.Program{r.empty, program, r.empty} {
		if err := r.objects.Measured.Put(uint32(0), p); err != nil {
			return 0, fmt.Errorf("insert program: %w", err)
		}
		code, each, err := r.objects.Advance.Benchmark(r.frame, packets, nil)
		if err != nil {
			return 0, fmt.Errorf("run: %w", err)
		}
		if code != 0xffffffff {
			return 0, fmt.Errorf("run: the program returned %d", int32(code))
		}
		took[i] = each
	}
	return took[1] - (took[0]+took[2])/2, nil
}
