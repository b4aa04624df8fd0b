package omsp

import (
	"bytes"
	"io"
	"testing"
)

// endless repeats bytes indefinitely.
type endless struct {
	wire []byte
	at   int
}

// Read implements io.Reader.
func (e *endless) Read(to []byte) (int, error) {
	n := 0
	for n < len(to) {
		m := copy(to[n:], e.wire[e.at:])
		n, e.at = n+m, (e.at+m)%len(e.wire)
	}
	return n, nil
}

// BenchmarkReader reads rows of int64, double, string(12), uint32.
func BenchmarkReader(b *testing.B) {
	s, _ := ParseSchema("1 s a:int64 b:double c:string d:uint32")
	for _, content := range []Content{Text, Binary} {
		b.Run(content.String(), func(b *testing.B) {
			var wire []byte
			for n := range 1000 {
				t := &Tuple{Schema: &s, Time: float64(n) / 1000, Seq: int64(n), Values: make([]Value, 4)}
				t.Values[0].SetInt(Int64, int64(n)*1234567)
				t.Values[1].SetDouble(float64(n) / 7)
				t.Values[2].SetString("twelve bytes")
				t.Values[3].SetUint(Uint32, uint64(n)*3)
				wire, _ = Append(wire, content, t)
			}
			header := "protocol: 4\nschema: " + s.String() + "\ncontent: " + content.String() + "\n\n"
			r := NewReader(io.MultiReader(bytes.NewReader([]byte(header)), &endless{wire: wire}), Limits{})
			if _, err := r.Header(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(wire) / 1000))
			b.ReportAllocs()
			var t Tuple
			for b.Loop() {
				if err := r.Next(&t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
