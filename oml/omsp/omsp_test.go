package omsp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

const smallSchema = "2 small_t i64:int64 d:double s:string u32:uint32 b:bool g:guid bl:blob vd:[double] vb:[bool]"

// The example of the protocol's description, in both forms. They differ in time; the text
// has six digits of pi, the packet 31 bits.
const (
	smallText   = "0.556765\t2\t1\t-5\t3.141593\ta\\tb\\\\c\\nd\t4000000000\tF\t1234605616436508552\tAAH/\t2 1.5 -0.1\t3 True False True\n"
	smallBinary = "aaaa010057090205000000010224" + "08919e0007fffffffffffffffb023243f6a8020407" + "6109625c630a64" +
		"06ee6b28000b0a11223344556677880900000003" + "0001ff0d0f00023ff8000000000000bfb999999999999a0d0e00030c0b0c"
)

func smallTuple(t *testing.T) *Tuple {
	t.Helper()
	s, err := ParseSchema(smallSchema)
	if err != nil {
		t.Fatal(err)
	}
	sample := &Tuple{Schema: &s, Time: 0.556765, Seq: 1, Values: make([]Value, len(s.Fields))}
	v := sample.Values
	v[0].SetInt(Int64, -5)
	v[1].SetDouble(3.141593)
	v[2].SetString("a\tb\\c\nd")
	v[3].SetUint(Uint32, 4000000000)
	v[4].SetBool(false)
	v[5].SetUint(GUID, 1234605616436508552)
	v[6].SetBlob([]byte{0, 1, 0xff})
	v[7].SetElements(Double|Vector, []uint64{math.Float64bits(1.5), math.Float64bits(-0.1)})
	v[8].SetElements(Bool|Vector, []uint64{1, 0, 1})
	return sample
}

// TestExample: the protocol's own example is written byte for byte, and read.
func TestExample(t *testing.T) {
	want := smallTuple(t)
	packet, err := hex.DecodeString(smallBinary)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		content Content
		wire    []byte
		time, d float64
	}{{Text, []byte(smallText), 0.556765, 3.141593}, {Binary, packet, 0x2408919ep-30, math.Pi}} {
		want.Time = c.time
		want.Values[1].SetDouble(c.d)
		got, err := Append(nil, c.content, want)
		if err != nil || !bytes.Equal(got, c.wire) {
			t.Errorf("%v: wrote %q, %v, want %q", c.content, got, err, c.wire)
		}
		r := open(t, c.content, string(c.wire), smallSchema)
		var tuple Tuple
		if err := r.Next(&tuple); err != nil {
			t.Fatalf("%v: %v", c.content, err)
		}
		if tuple.Seq != 1 || tuple.Time != c.time || !tuple.Schema.Same(*want.Schema) {
			t.Errorf("%v: read %+v", c.content, tuple)
		}
		for i := range want.Values {
			got, want := &tuple.Values[i], &want.Values[i]
			if i == 1 && c.content == Binary {
				if math.Abs(got.Double()-want.Double()) > 4e-9 {
					t.Errorf("%v: double %v", c.content, got.Double())
				}
				continue
			}
			if !got.Equal(want) {
				t.Errorf("%v: value %d is %+v, want %+v", c.content, i, got, want)
			}
		}
		if err := r.Next(&tuple); err != io.EOF {
			t.Errorf("%v: at the end: %v", c.content, err)
		}
	}
}

// open returns a Reader that has read its header.
func open(t testing.TB, content Content, body string, schemas ...string) *Reader {
	t.Helper()
	text := "protocol: 4\ndomain: d\nstart-time: 1700000000\nsender-id: s\napp-name: a\n"
	for _, s := range schemas {
		text += "schema: " + s + "\n"
	}
	r := NewReader(strings.NewReader(text+"content: "+content.String()+"\n\n"+body), Limits{})
	if _, err := r.Header(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHeader(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"c client", "protocol: 4\ndomain: (null)\nstart-time: 1700000000\nsender-id: s\napp-name: a\nschema: 0 _experiment_metadata subject:string key:string value:string \nschema: 1 m_a x:long y:float \ncontent: binary\n\n",
			"4||1700000000|s|a|binary|0 _experiment_metadata subject:string key:string value:string;1 m_a x:int32 y:double;"},
		{"old names", "protocol: 1\nexperiment-id:  e  \nstart_time: 17.9\nsender-id: s\napp-name: a\n\n", "1|e|17|s|a|text|"},
		{"unknown keys", "protocol: 5\nx-token: secret\n\n", "5||0|||text|"},
		{"carriage returns", "protocol: 3\r\ndomain: d\r\n\r\n", "3|d|0|||text|"},
		{"no colon", "protocol: 4\nhello\n\n", "!without a colon"},
		{"no protocol", "domain: d\n\n", "!no protocol line"},
		{"future", "protocol: 6\n\n", "!versions 1 to 5"},
		{"cut off", "protocol: 4\ndomain", "!unexpected EOF"},
		{"bad type", "protocol: 4\nschema: 1 a b:complex\n\n", "!complex"},
		{"two fields", "protocol: 4\nschema: 1 a b:int32 b:int32\n\n", "!duplicate field b"},
		{"name as path", "protocol: 4\nschema: 1 ../a b:int32\n\n", "!invalid name"},
		{"content", "protocol: 4\ncontent: xml\n\n", "!text or binary"},
		{"stream 0", "protocol: 4\nschema: 0 mine a:int32\n\n", "!_experiment_metadata"},
		{"start", "protocol: 4\nstart-time: -3\n\n", "!seconds"},
		{"far start", "protocol: 4\nstart-time: 5000000000\n\n", "!seconds"},
	} {
		h, err := NewReader(strings.NewReader(c.text), Limits{}).Header()
		if wrong, fails := strings.CutPrefix(c.want, "!"); fails {
			if err == nil || !errors.Is(err, ErrHeader) || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %v, want %q", c.name, err, wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := strings.Join([]string{string(rune('0' + h.Protocol)), h.Domain, itoa(h.Start), h.Sender, h.App, h.Content.String(), ""}, "|")
		for _, s := range h.Schemas {
			got += s.String() + ";"
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func itoa(n int64) string { return string(appendScalar(nil, Int64, uint64(n), "", "")) }

// TestDeviations: common deviations of real clients are accepted, errors are reported, and
// the rows after them are read.
func TestDeviations(t *testing.T) {
	const schema = "1 s b:bool i:int32 u:uint32 d:double t:string v:[int32]"
	for _, c := range []struct{ name, row, want string }{
		{"python", "1e-07\t1\t0\tTrue\t-3\t4\tnan\tüml\t0", "True -3 4 nan üml 0"},
		{"spaces", " 1.5 \t 1 \t 2 \tfal\t +3 \t4.0\t 1e-07 \t x \t 2 1  2 ", "False 3 4 1e-07  x  2 1 2"},
		{"empty bool", "1\t1\t2\t\t3\t4\t5\t\t0", "False 3 4 5  0"},
		{"bool no", "1\t1\t2\tno\t3\t4\t5\t\t0", "True 3 4 5  0"},
		{"unknown escape", "1\t1\t2\tF\t3\t4\t5\ta\\qb\\\t0", "False 3 4 5 a\\qb\\ 0"},
		{"inf", "1\t1\t2\tF\t3\t4\t-inf\t\t0", "False 3 4 -Inf  0"},
		{"tab at the end", "1\t1\t2\tF\t3\t4\t5\tx\t0\t", "False 3 4 5 x 0"},
		{"too large", "1\t1\t2\tF\t2147483648\t4\t5\tx\t0", "!s.i"},
		{"least", "1\t1\t2\tF\t-2147483648\t4294967295\t5\tx\t0", "False -2147483648 4294967295 5 x 0"},
		{"negative", "1\t1\t2\tF\t3\t-4\t5\tx\t0", "!s.u"},
		{"broken number", "1\t1\t2\tF\t3.5\t4\t5\tx\t0", "!s.i"},
		{"few", "1\t1\t2\tF\t3", "!2 values, want 6"},
		{"many", "1\t1\t2\tF\t3\t4\t5\tx\t0\t9", "!more than 6"},
		{"short vector", "1\t1\t2\tF\t3\t4\t5\tx\t3 1 2", "!element 3"},
		{"long vector", "1\t1\t2\tF\t3\t4\t5\tx\t1 1 2", "!more than 1"},
		{"huge vector", "1\t1\t2\tF\t3\t4\t5\tx\t2000000000 1", "!number of elements"},
		{"unknown stream", "1\t7\t2\tF", "!no schema"},
		{"no time", "\t1\t2\tF", "!time"},
		{"no seq", "1\t1\tx\tF", "!seq"},
		{"only one word", "hello", "!time"},
	} {
		r := open(t, Text, c.row+"\n\n9\t1\t9\tT\t9\t9\t9\t9\t0\n", schema)
		var tuple Tuple
		err := r.Next(&tuple)
		if wrong, fails := strings.CutPrefix(c.want, "!"); fails {
			if !errors.Is(err, ErrTuple) || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %v, want %q", c.name, err, wrong)
			}
		} else if err != nil || words(&tuple) != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, words(&tuple), err, c.want)
		}
		if err := r.Next(&tuple); err != nil || tuple.Seq != 9 {
			t.Errorf("%s: the next row: %+v, %v", c.name, tuple, err)
		}
	}
}

func words(t *Tuple) string {
	var all []string
	for i := range t.Values {
		v := &t.Values[i]
		if v.Type == String {
			all = append(all, string(v.Bytes()))
		} else {
			all = append(all, strings.NewReplacer("T", "True", "F", "False").Replace(strings.ReplaceAll(strings.ReplaceAll(string(v.appendText(nil)), "True", "T"), "False", "F")))
		}
	}
	return strings.Join(all, " ")
}

// TestTruncated: a truncated number is an error.
func TestTruncated(t *testing.T) {
	r := open(t, Text, "1\t1\t0\t123456", "1 s a:int32")
	var tuple Tuple
	if err := r.Next(&tuple); !errors.Is(err, ErrTuple) {
		t.Errorf("got %v", err)
	}
	if err := r.Next(&tuple); err != io.EOF {
		t.Errorf("after it: %v", err)
	}
}

// TestRedefinition: the metadata stream needs no declaration, and defines streams.
func TestRedefinition(t *testing.T) {
	for _, content := range []Content{Text, Binary} {
		var body []byte
		add := func(s *Schema, seq int64, values ...Value) {
			var err error
			if body, err = Append(body, content, &Tuple{Schema: s, Seq: seq, Values: values}); err != nil {
				t.Fatal(err)
			}
		}
		text := func(s string) (v Value) { v.SetString(s); return v }
		number := func(n int64) (v Value) { v.SetInt(Int32, n); return v }
		before, after := &Schema{1, "s", []Field{{"a", Int32}}}, &Schema{1, "s", []Field{{"a", Int32}, {"b", String}}}
		add(before, 1, number(1))
		add(&Metadata, 1, text(".s.a"), text("unit"), text("ms"))
		add(&Metadata, 2, text("."), text("schema"), text(after.String()))
		add(after, 2, number(2), text("two"))
		add(&Metadata, 3, text("."), text("schema"), text("300 far x:double "))
		add(&Metadata, 4, text("."), text("schema"), text("nonsense"))
		r := open(t, content, string(body), before.String())
		var got []string
		for {
			var tuple Tuple
			err := r.Next(&tuple)
			if err == io.EOF {
				break
			}
			line := tuple.Schema.Name + ":" + words(&tuple)
			if s := r.Defined(&tuple); s != nil {
				line += " defines " + s.Name
			}
			if err != nil {
				line += " fails"
			}
			got = append(got, line)
		}
		want := []string{"s:1", "_experiment_metadata:.s.a unit ms", "_experiment_metadata:. schema 1 s a:int32 b:string defines s", "s:2 two",
			"_experiment_metadata:. schema 300 far x:double  defines far", "_experiment_metadata:. schema nonsense fails"}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%v: got\n%s\nwant\n%s", content, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestGarbage: binary reading continues at the next packet, and counts what it skipped.
func TestGarbage(t *testing.T) {
	packet, _ := hex.DecodeString(smallBinary)
	body := "\x00\xaa\x01junk\xaa\xaa\x09" + string(packet) + "\xaa" + string(packet) + "tail"
	r := open(t, Binary, body, smallSchema)
	var tuple Tuple
	for range 2 {
		if err := r.Next(&tuple); err != nil || tuple.Seq != 1 {
			t.Fatalf("got %+v, %v", tuple, err)
		}
	}
	if err := r.Next(&tuple); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if want := uint64(len(body) - 2*len(packet)); r.Skipped() != want {
		t.Errorf("skipped %d bytes, want %d", r.Skipped(), want)
	}
}

// TestLong: a packet that needs a long head, and a line larger than the buffer.
func TestLong(t *testing.T) {
	s := &Schema{1, "s", []Field{{"b", Blob}}}
	for _, content := range []Content{Text, Binary} {
		var v Value
		v.SetBlob(bytes.Repeat([]byte("pillion\xaa\xaa"), 30000))
		wire, err := Append(nil, content, &Tuple{Schema: s, Seq: 1, Values: []Value{v}})
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, content, string(wire)+string(wire), s.String())
		for range 2 {
			var tuple Tuple
			if err := r.Next(&tuple); err != nil || !tuple.Values[0].Equal(&v) {
				t.Errorf("%v: %v", content, err)
			}
		}
		small := NewReader(io.MultiReader(strings.NewReader("protocol: 4\nschema: 1 s b:blob\ncontent: "+content.String()+"\n\n"), bytes.NewReader(wire)), Limits{Line: 150000})
		if _, err := small.Header(); err != nil {
			t.Fatal(err)
		}
		var tuple Tuple
		if err := small.Next(&tuple); !errors.Is(err, ErrLimit) {
			t.Errorf("%v: beyond the limit: %v", content, err)
		}
	}
}

// TestNoAllocation: reading and writing rows allocates no memory.
func TestNoAllocation(t *testing.T) {
	s, _ := ParseSchema("1 s a:int64 b:double c:string d:uint32")
	sample := &Tuple{Schema: &s, Time: 1.25, Seq: 7, Values: make([]Value, 4)}
	sample.Values[0].SetInt(Int64, -123456789)
	sample.Values[1].SetDouble(0.1234567)
	sample.Values[2].SetString("twelve\tbytes")
	sample.Values[3].SetUint(Uint32, 4000000000)
	for _, content := range []Content{Text, Binary} {
		const rows = 1000
		wire, err := Append(nil, content, sample)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, content, strings.Repeat(string(wire), 3*rows), s.String())
		var tuple Tuple
		buffer := make([]byte, 0, 1000)
		if n := testing.AllocsPerRun(2, func() {
			for range rows {
				if err := r.Next(&tuple); err != nil {
					t.Fatal(err)
				}
				if buffer, err = Append(buffer[:0], content, &tuple); err != nil {
					t.Fatal(err)
				}
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations for %d rows", content, n, rows)
		}
	}
}
