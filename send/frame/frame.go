// Package frame builds the packets that are sent: complete frames from the link-layer
// header to the payload, with lengths and checksums filled in.
//
// A frame is a template that many packets share, and a patch that makes each of them its
// own. The patch never changes the frame's checksums (see Tag), so a mechanism that
// waits in the kernel writes a few bytes for each packet and computes nothing.
package frame

// PatchBytes is the size of a patch.
const PatchBytes = 24

// Template is a frame that packets share.
type Template struct {
	// Bytes is the frame, without a frame check sequence.
	Bytes []byte
	// PatchAt is the offset of the patch; 0 if the payload has no room for one.
	PatchAt int
}

// Frame is a packet: a template and its patch.
type Frame struct {
	*Template
	Patch [PatchBytes]byte // not used if the template has no room
}

// Len is the length of the frame in bytes.
func (f Frame) Len() int { return len(f.Bytes) }

// AppendTo appends the frame's bytes to b.
func (f Frame) AppendTo(b []byte) []byte {
	at := len(b)
	b = append(b, f.Bytes...)
	if f.PatchAt > 0 {
		copy(b[at+f.PatchAt:], f.Patch[:])
	}
	return b
}

// Protocol is the EtherType of the frame, in network byte order.
func (t *Template) Protocol() [2]byte { return [2]byte(t.Bytes[12:14]) }
