package source

import (
	"errors"
	"fmt"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

// ErrSparse refuses sparse marks together with other settings.
var ErrSparse = errors.New("sparse marks")

func (p *Policy) checkSparse() error {
	switch {
	case !p.SparseMarks:
		return nil
	case p.Modules != wire.Delay|wire.Loss:
		return fmt.Errorf("%w require the modules delay and loss", ErrSparse)
	case p.Fields() != flow.All:
		return fmt.Errorf("%w require flows by address, protocol and port", ErrSparse)
	case !p.Sampling.All():
		return fmt.Errorf("%w cannot be combined with sampling", ErrSparse)
	case p.HopsGap > 0:
		return fmt.Errorf("%w cannot be combined with traces of hops", ErrSparse)
	}
	for _, e := range p.Encodings {
		if e.Carries()&wire.CarriesSparse == 0 {
			return fmt.Errorf("%w cannot travel as %v", ErrSparse, e)
		}
	}
	return nil
}

// ErrAggregate refuses flows by other fields than addresses, protocol and ports together with
// other settings.
var ErrAggregate = errors.New("aggregated flows")

// checkAggregate refuses encodings whose marks cannot name the fields by which flows are told apart.
func (p *Policy) checkAggregate() error {
	for _, e := range p.Encodings {
		if p.Fields() != flow.All && e.Carries()&wire.CarriesSparse == 0 {
			return fmt.Errorf("%w (%v) cannot be numbered in %v: use --flow %v, or another encoding", ErrAggregate, p.Flow, e, flow.All)
		}
	}
	return nil
}
