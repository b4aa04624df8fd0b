package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"pillion.dev/wire"
)

// A Header is what the options of an IPv6 header say: the marks that standards define and
// Pillion's own. A pointer is nil where the option is missing.
type Header struct {
	PDM     *PDM
	AltMark *AltMark
	Trace   *Trace // in a Hop-by-Hop header
	E2E     *E2E
	DEX     *DEX
	Own     Mark // as in the native encoding; its Modules are zero where there is none
	Modules []ModuleOption
}

const (
	optionPad1 = 0x00
	optionPadN = 0x01
)

// AppendHeader appends a header that is followed by one of type next: the options in the
// order in which the struct has them, IOAM options at multiples of four bytes, and padding
// to a multiple of eight. It is the form in which Pillion writes them.
func AppendHeader(b []byte, next uint8, h Header) []byte {
	begin := len(b)
	b = append(b, next, 0)
	if h.PDM != nil {
		b = h.PDM.append(b)
	}
	if h.AltMark != nil {
		b = h.AltMark.append(b)
	}
	if h.Trace != nil {
		b = h.Trace.append(pad(b, begin, 4))
	}
	if h.E2E != nil {
		b = h.E2E.append(pad(b, begin, 4))
	}
	if h.DEX != nil {
		b = h.DEX.append(pad(b, begin, 4))
	}
	if h.Own.check() == nil {
		l, _ := layoutOf(h.Own)
		b = l.appendOptions(b, h.Own)
	}
	for _, o := range h.Modules {
		b = o.append(b)
	}
	b = pad(b, begin, 8)
	b[begin+1] = uint8((len(b)-begin)/8 - 1)
	return b
}

// pad makes the length of what begins at an offset a multiple of n.
func pad(b []byte, begin, n int) []byte {
	switch missing := (n - (len(b)-begin)%n) % n; missing {
	case 0:
		return b
	case 1:
		return append(b, optionPad1)
	default:
		return append(append(b, optionPadN, uint8(missing-2)), make([]byte, missing-2)...)
	}
}

// ParseHeader reads the header at the start of b, and returns the type of the one that follows and its
// own size. Options that it does not know are skipped if hosts skip them, too. The error is ErrNotMark
// for options that make a host discard the packet, and for those whose data it cannot read;
// ErrMalformed for one that comes twice or contradicts itself, ErrShort if b ends too early.
func ParseHeader(b []byte) (h Header, next uint8, n int, err error) {
	if len(b) < 8 {
		return Header{}, 0, 0, fmt.Errorf("parse header: %d bytes: %w", len(b), ErrShort)
	}
	size := 8 * (int(b[1]) + 1)
	if len(b) < size {
		return Header{}, 0, 0, fmt.Errorf("parse header: %d bytes of %d: %w", len(b), size, ErrShort)
	}
	for at := 2; at < size; {
		kind := b[at]
		if kind == optionPad1 {
			at++
			continue
		}
		if at+2 > size || at+2+int(b[at+1]) > size {
			return Header{}, 0, 0, fmt.Errorf("parse header: option %#02x ends behind the header: %w", kind, ErrMalformed)
		}
		data := b[at+2 : at+2+int(b[at+1])]
		if err := h.take(kind, data); err != nil {
			return Header{}, 0, 0, fmt.Errorf("parse header: option %#02x: %w", kind, err)
		}
		at += 2 + len(data)
	}
	return h, b[0], size, nil
}

// isStandard reports whether the header has a mark of a standard.
func (h *Header) isStandard() bool {
	return h.PDM != nil || h.AltMark != nil || h.Trace != nil || h.E2E != nil || h.DEX != nil
}

// take reads one option, and refuses one of a standard behind ours.
func (h *Header) take(kind uint8, data []byte) error {
	if err := h.takeOption(kind, data); err != nil {
		return err
	}
	if h.Own.Modules != 0 && h.isStandard() {
		return fmt.Errorf("behind a mark of ours: %w", ErrMalformed)
	}
	return nil
}

func (h *Header) takeOption(kind uint8, data []byte) (err error) {
	switch kind {
	case optionPadN:
		return nil
	case OptionPDM:
		return once(&h.PDM, data, parsePDM)
	case OptionAltMark:
		return once(&h.AltMark, data, parseAltMark)
	case OptionIOAM, OptionIOAMHops:
		return h.takeIOAM(kind, data)
	case OptionLoss:
		if h.isStandard() {
			return nil // not a mark of two kinds
		}
		return h.takeLoss(data)
	case OptionModule: // or OptionDelay
		if len(data) == delayLength && h.isStandard() {
			return nil
		} else if len(data) == delayLength {
			return h.takeDelay(data)
		}
		o, err := parseModuleOption(data)
		if err == nil && slices.ContainsFunc(h.Modules, func(known ModuleOption) bool { return known.ID == o.ID }) {
			return fmt.Errorf("module %d twice: %w", o.ID, ErrMalformed)
		}
		h.Modules = append(h.Modules, o)
		return err
	}
	if kind>>6 != 0 {
		return fmt.Errorf("not one to skip: %w", ErrNotMark)
	}
	return nil
}

// takeIOAM reads an option of IOAM. Types that it does not know are skipped.
func (h *Header) takeIOAM(kind uint8, data []byte) error {
	if len(data) < ioamHead {
		return fmt.Errorf("%d bytes: %w", len(data), ErrMalformed)
	}
	namespace := binary.BigEndian.Uint16(data[2:])
	switch ioam := data[1]; {
	case ioam == ioamTrace && kind == OptionIOAMHops:
		err := once(&h.Trace, data[ioamHead:], func(b []byte) (Trace, error) { return parseTrace(namespace, b) })
		if errors.Is(err, errUnreadable) {
			return nil // what stands beside it can be read
		}
		return err
	case ioam == ioamE2E && kind == OptionIOAM:
		return once(&h.E2E, data[ioamHead:], func(b []byte) (E2E, error) { return parseE2E(namespace, b) })
	case ioam == ioamDEX && kind == OptionIOAM:
		return once(&h.DEX, data[ioamHead:], func(b []byte) (DEX, error) { return parseDEX(namespace, b) })
	}
	return nil
}

// once reads what may come one time.
func once[T any](into **T, data []byte, parse func([]byte) (T, error)) error {
	if *into != nil {
		return fmt.Errorf("twice: %w", ErrMalformed)
	}
	read, err := parse(data)
	if err != nil {
		return err
	}
	*into = &read
	return nil
}

// takeDelay reads the delay option.
func (h *Header) takeDelay(data []byte) error {
	if h.Own.Modules != 0 {
		return fmt.Errorf("delay twice or behind loss: %w", ErrMalformed)
	}
	h.Own.setDelay(data)
	return nil
}

// takeLoss reads the loss option, of one of four lengths.
func (h *Header) takeLoss(data []byte) error {
	own := h.Own
	if own.Modules&wire.Loss != 0 {
		return fmt.Errorf("loss twice: %w", ErrMalformed)
	}
	for _, l := range optionLayouts {
		read := own
		if int(l.lossLength) == len(data) && l.modules == own.Modules|wire.Loss && l.readLoss(&read, data) {
			h.Own = read
			return nil
		}
	}
	return fmt.Errorf("loss option %x: %w", data, ErrMalformed)
}
