package codec

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"pillion.dev/wire"
)

//go:embed testdata/vectors.json
var vectorsJSON []byte

// A Vector is one packet before and after it was marked. Both are IP packets
// without link-layer header. The UDP source port of a marked packet in the udp
// encoding is one possible hash: compare everything but that.
type Vector struct {
	Name     string
	Encoding wire.Encoding
	Port     uint16 // UDP destination port of the udp encoding
	Mark     Mark
	Original []byte
	Marked   []byte
}

// row is a vector in the file: numbers that not every reader can hold exactly
// and all packets are hexadecimal strings.
type row struct {
	Name     string `json:"name"`
	Encoding string `json:"encoding"`
	Port     uint16 `json:"port"`
	Modules  string `json:"modules"`
	Sent     string `json:"sent"`
	Received string `json:"received"`
	Ticks    uint32 `json:"ticks"`
	Sequence uint32 `json:"sequence"`
	Single   bool   `json:"single"`
	Sparse   bool   `json:"sparse,omitempty"`
	Original string `json:"original"`
	Marked   string `json:"marked"`
}

// Vectors returns the golden vectors in the order of the file.
func Vectors() ([]Vector, error) {
	var all []Vector
	if err := json.Unmarshal(vectorsJSON, &all); err != nil {
		return nil, fmt.Errorf("load vectors: %w", err)
	}
	return all, nil
}

// MarshalJSON returns the vector as it stands in the file.
func (v Vector) MarshalJSON() ([]byte, error) {
	return json.Marshal(row{
		Name: v.Name, Encoding: v.Encoding.String(), Port: v.Port,
		Modules: v.Mark.Modules.String(),
		Sent:    fmt.Sprintf("%016x", uint64(v.Mark.Sent)), Received: fmt.Sprintf("%016x", uint64(v.Mark.Received)),
		Ticks: v.Mark.Ticks, Sequence: v.Mark.Sequence, Single: v.Mark.Single, Sparse: v.Mark.Sparse,
		Original: hex.EncodeToString(v.Original), Marked: hex.EncodeToString(v.Marked),
	})
}

// UnmarshalJSON reads a vector as it stands in the file.
func (v *Vector) UnmarshalJSON(b []byte) error {
	var r row
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	encoding, err := wire.ParseEncoding(r.Encoding)
	if err != nil {
		return fmt.Errorf("read vector %q: %w", r.Name, err)
	}
	modules, err := wire.ParseModule(r.Modules)
	if err != nil {
		return fmt.Errorf("read vector %q: %w", r.Name, err)
	}
	sent, err := strconv.ParseUint(r.Sent, 16, 64)
	if err != nil {
		return fmt.Errorf("read vector %q: sent: %w", r.Name, err)
	}
	received, err := strconv.ParseUint(r.Received, 16, 64)
	if err != nil {
		return fmt.Errorf("read vector %q: received: %w", r.Name, err)
	}
	original, err := hex.DecodeString(r.Original)
	if err != nil {
		return fmt.Errorf("read vector %q: original: %w", r.Name, err)
	}
	marked, err := hex.DecodeString(r.Marked)
	if err != nil {
		return fmt.Errorf("read vector %q: marked: %w", r.Name, err)
	}
	*v = Vector{
		Name: r.Name, Encoding: encoding, Port: r.Port,
		Mark: Mark{
			Modules: modules, Sent: Timestamp(sent), Received: Timestamp(received),
			Ticks: r.Ticks, Sequence: r.Sequence, Single: r.Single, Sparse: r.Sparse,
		},
		Original: original, Marked: marked,
	}
	return nil
}
