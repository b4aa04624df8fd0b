package codec

import (
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

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

	// With a tag: the key of the pair of hosts, and when the packet is sent.
	Key Key
	Now time.Time
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
	Block    string `json:"block,omitempty"` // the data of the option, if there are no modules
	Tag      string `json:"tag,omitempty"`
	Echo     string `json:"echo,omitempty"`
	Key      string `json:"key,omitempty"`
	Now      string `json:"now,omitempty"` // RFC 3339
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
	r := row{
		Name: v.Name, Encoding: v.Encoding.String(), Port: v.Port,
		Modules: v.Mark.Modules.String(),
		Sent:    fmt.Sprintf("%016x", uint64(v.Mark.Sent)), Received: fmt.Sprintf("%016x", uint64(v.Mark.Received)),
		Ticks: v.Mark.Ticks, Sequence: v.Mark.Sequence, Single: v.Mark.Single, Sparse: v.Mark.Sparse,
		Original: hex.EncodeToString(v.Original), Marked: hex.EncodeToString(v.Marked),
	}
	if v.Mark.Echo != (Echo{}) {
		r.Echo = hex.EncodeToString(v.Mark.Echo.append(nil))
	}
	if v.Mark.Modules == 0 {
		r.Block = fmt.Sprintf("%08x", v.Mark.Block.Word())
	}
	if v.Mark.Tagged {
		r.Tag = fmt.Sprintf("%08x", v.Mark.Tag)
		r.Key = hex.EncodeToString(v.Key[:])
		r.Now = v.Now.Format(time.RFC3339)
	}
	return json.Marshal(r)
}

// UnmarshalJSON reads a vector as it stands in the file.
func (v *Vector) UnmarshalJSON(b []byte) error {
	var r row
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	read, err := r.vector()
	if err != nil {
		return fmt.Errorf("read vector %q: %w", r.Name, err)
	}
	*v = read
	return nil
}

func (r row) vector() (v Vector, err error) {
	v = Vector{
		Name: r.Name, Port: r.Port,
		Mark: Mark{Ticks: r.Ticks, Sequence: r.Sequence, Single: r.Single, Sparse: r.Sparse, Tagged: r.Tag != ""},
	}
	if v.Encoding, err = wire.ParseEncoding(r.Encoding); err != nil {
		return Vector{}, err
	}
	if err := v.readContent(r); err != nil {
		return Vector{}, err
	}
	sent, err := strconv.ParseUint(r.Sent, 16, 64)
	if err != nil {
		return Vector{}, fmt.Errorf("sent: %w", err)
	}
	received, err := strconv.ParseUint(r.Received, 16, 64)
	if err != nil {
		return Vector{}, fmt.Errorf("received: %w", err)
	}
	v.Mark.Sent, v.Mark.Received = Timestamp(sent), Timestamp(received)
	if v.Original, err = hex.DecodeString(r.Original); err != nil {
		return Vector{}, fmt.Errorf("original: %w", err)
	}
	if v.Marked, err = hex.DecodeString(r.Marked); err != nil {
		return Vector{}, fmt.Errorf("marked: %w", err)
	}
	if v.Mark.Echo, err = parseEcho(r.Echo); err != nil {
		return Vector{}, fmt.Errorf("echo: %w", err)
	}
	if v.Mark.Tagged {
		err = v.readTag(r)
	}
	return v, err
}

func parseEcho(text string) (Echo, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) == 0 {
		return Echo{}, err
	}
	return echoOf(b)
}

// readContent reads the modules, or the block of a mark without any.
func (v *Vector) readContent(r row) (err error) {
	if r.Block == "" {
		v.Mark.Modules, err = wire.ParseModule(r.Modules)
		return err
	}
	word, err := hex.DecodeString(r.Block)
	if err == nil {
		v.Mark.Block, err = parseAltMark(word)
	}
	if err != nil {
		return fmt.Errorf("block: %w", err)
	}
	return nil
}

// readTag reads what only vectors with a tag have.
func (v *Vector) readTag(r row) error {
	tag, err := strconv.ParseUint(r.Tag, 16, 32)
	if err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	key, err := hex.DecodeString(r.Key)
	if err != nil || len(key) != len(v.Key) {
		return fmt.Errorf("key %q: not %d bytes in hexadecimal", r.Key, len(v.Key))
	}
	v.Mark.Tag, v.Key = uint32(tag), Key(key)
	if v.Now, err = time.Parse(time.RFC3339, r.Now); err != nil {
		return fmt.Errorf("now: %w", err)
	}
	return nil
}
