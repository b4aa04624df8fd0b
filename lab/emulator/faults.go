package emulator

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"time"
)

// Faults are the impairments of one direction of a link; the zero value has none. They
// apply to a packet in this order:
//
//   - Loss: it is dropped with this probability.
//   - Rate: it is transmitted at this rate after the packets before it; its size
//     counts the Ethernet frame without checksum. It is dropped if Queue is full.
//     Rate is the only fault whose outcome depends on timing.
//   - Delay and Jitter: it is delayed by Delay plus a time that is uniformly
//     distributed from -Jitter to +Jitter, independently of other packets, so that
//     jitter larger than the spacing of packets reorders them. With KeepOrder it
//     never overtakes the packet before it; the distribution is then not uniform.
//   - Reorder: with this probability it is delayed by another ReorderGap, and packets
//     sent within that time overtake it: it is the packet that RFC 4737 counts as
//     reordered. If none follows within the gap it is only delayed. KeepOrder does
//     not apply to it.
//   - Duplicate: with this probability a second copy follows immediately. The copy does
//     not count towards Rate.
type Faults struct {
	Delay      Duration `json:"delay"`
	Jitter     Duration `json:"jitter"`
	KeepOrder  bool     `json:"keep_order"`
	Loss       Fraction `json:"loss"`
	Duplicate  Fraction `json:"duplicate"`
	Reorder    Fraction `json:"reorder"`
	ReorderGap Duration `json:"reorder_gap"`
	Rate       Rate     `json:"rate"`
	Queue      Queue    `json:"queue"`
}

// DefaultFaults is a link without impairments; its queue and gap take effect with a rate
// or reordering.
func DefaultFaults() Faults {
	return Faults{ReorderGap: Duration(time.Millisecond), Queue: Queue{Packets: 1000}}
}

// Change has the faults to be set, by their names in Faults; nil leaves one unchanged.
// The tags also describe the options of the command line (package kong reads them).
type Change struct {
	Delay      *Duration `json:"delay,omitempty" yaml:"delay" placeholder:"TIME" help:"Delay, such as 5ms."`
	Jitter     *Duration `json:"jitter,omitempty" yaml:"jitter" placeholder:"TIME" help:"Jitter, uniform, plus or minus."`
	KeepOrder  *bool     `json:"keep_order,omitempty" yaml:"keep_order" help:"Prevent jitter from reordering packets." negatable:""`
	Loss       *Fraction `json:"loss,omitempty" yaml:"loss" placeholder:"PERCENT" help:"Loss, such as 0.1%."`
	Duplicate  *Fraction `json:"duplicate,omitempty" yaml:"duplicate" placeholder:"PERCENT" help:"Duplicated packets."`
	Reorder    *Fraction `json:"reorder,omitempty" yaml:"reorder" placeholder:"PERCENT" help:"Packets delayed out of order."`
	ReorderGap *Duration `json:"reorder_gap,omitempty" yaml:"reorder_gap" placeholder:"TIME" help:"Additional delay of these packets."`
	Rate       *Rate     `json:"rate,omitempty" yaml:"rate" placeholder:"RATE" help:"Rate, such as 100mbit; 0 is no limit."`
	Queue      *Queue    `json:"queue,omitempty" yaml:"queue" placeholder:"SIZE" help:"Queue limit in packets, or in bytes such as 64kB."`
}

// Calm is the change that disables random faults and leaves delay and rate unchanged, so
// that the last packets of a test have a known fate.
func Calm() Change {
	var none Fraction
	return Change{Loss: &none, Duplicate: &none, Reorder: &none}
}

// Apply returns the faults after the change.
func (f Faults) Apply(c Change) (Faults, error) {
	from, to := reflect.ValueOf(c), reflect.ValueOf(&f).Elem()
	for i := range from.NumField() {
		if value := from.Field(i); !value.IsNil() {
			to.FieldByName(from.Type().Field(i).Name).Set(value.Elem())
		}
	}
	if f.Jitter > f.Delay {
		return f, errors.New("check jitter: larger than delay")
	}
	return f, nil
}

// fate is the random outcome for one packet.
type fate struct {
	lost       bool
	heldBack   bool
	duplicated bool
	jitter     int64 // ns, from -Jitter to +Jitter
}

// dice generates fates. It draws four numbers for every packet regardless of the faults,
// so that the n-th data packet of a direction always gets the same numbers.
type dice struct{ source *rand.Rand }

func newDice(seed uint64, direction int) dice {
	return dice{rand.New(rand.NewPCG(seed, uint64(direction)))}
}

func (d dice) throw(f *Faults) fate {
	loss, duplicate, reorder := d.source.Float64(), d.source.Float64(), d.source.Float64()
	return fate{
		lost:       loss < float64(f.Loss),
		duplicated: duplicate < float64(f.Duplicate),
		heldBack:   reorder < float64(f.Reorder),
		jitter:     int64((2*d.source.Float64() - 1) * float64(f.Jitter)),
	}
}
