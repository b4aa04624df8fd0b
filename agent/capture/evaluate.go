package capture

import "golang.org/x/net/bpf"

// fits reports whether a packet is to be kept, as the kernel would. Length is that on
// the wire, which bpf.VM cannot be told. A nil filter keeps all.
func (f *filter) fits(data []byte, length int) bool {
	if f == nil {
		return true
	}
	var a, x uint32
	for at := 0; at < len(f.code); at++ {
		ok := true
		switch i := f.code[at].(type) {
		case bpf.LoadAbsolute:
			a, ok = load(data, uint64(i.Off), i.Size)
		case bpf.LoadIndirect:
			a, ok = load(data, uint64(i.Off)+uint64(x), i.Size)
		case bpf.LoadMemShift:
			x, ok = load(data, uint64(i.Off), 1)
			x = x & 0xf * 4
		case bpf.LoadExtension:
			a = uint32(length)
		case bpf.ALUOpConstant:
			a &= i.Val
		case bpf.Jump:
			at += int(i.Skip)
		case bpf.JumpIf:
			if jumps(i, a) {
				at += int(i.SkipTrue)
			} else {
				at += int(i.SkipFalse)
			}
		case bpf.RetConstant:
			return i.Val > 0
		}
		if !ok {
			return false // what is not there fits nothing, as in the kernel
		}
	}
	return false
}

func load(data []byte, offset uint64, size int) (n uint32, ok bool) {
	if offset+uint64(size) > uint64(len(data)) {
		return 0, false
	}
	for _, b := range data[offset : offset+uint64(size)] {
		n = n<<8 | uint32(b)
	}
	return n, true
}

func jumps(i bpf.JumpIf, a uint32) bool {
	switch i.Cond {
	case bpf.JumpEqual:
		return a == i.Val
	case bpf.JumpGreaterThan:
		return a > i.Val
	case bpf.JumpGreaterOrEqual:
		return a >= i.Val
	}
	return a&i.Val != 0 // JumpBitsSet, the last that is generated
}
