package collect

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestQuirks: what clients in the field send beside the protocol costs at most the tuple itself.
func TestQuirks(t *testing.T) {
	const before, after = "0.1\t1\t0\t1\tbefore\n", "0.3\t1\t2\t3\tafter\n"
	around := func(rows ...string) []string {
		return slices.Concat([]string{"s 0 1 before"}, rows, []string{"s 2 3 after"})
	}
	for _, c := range []struct {
		name, text string
		want       []string // of oneStream
		faults     uint64
	}{
		{"too few values", header("d", 1, oneStream) + before + "0.2\t1\t1\t2\n" + after, around(), 1},
		{"too many values", header("d", 1, oneStream) + before + "0.2\t1\t1\t2\tb\textra\n" + after, around(), 1},
		{"overflow", header("d", 1, oneStream) + before + "0.2\t1\t1\t9223372036854775808\tb\n" + after, around(), 1},
		{"empty number", header("d", 1, oneStream) + before + "0.2\t1\t1\t\tb\n" + after, around(), 1},
		{"unknown stream", header("d", 1, oneStream) + before + "0.2\t9\t1\t2\tb\n" + after, around(), 1},
		{"NUL", header("d", 1, oneStream) + before + "0.2\t1\t1\t2\tb\x00c\n" + after, around("s 1 2 b\x00c"), 0},
		{"not UTF-8", header("d", 1, oneStream) + before + "0.2\t1\t1\t2\tb\xffc\n" + after, around("s 1 2 b\ufffdc"), 0},
		{"escapes", header("d", 1, oneStream) + before + `0.2	1	1	2	a\tb\nc\\d\q` + "\\\n" + after, around("s 1 2 a\tb\nc\\d\\q\\"), 0},
		{"least and most", header("d", 1, oneStream) + "0\t1\t0\t-9223372036854775808\t\n0\t1\t1\t9223372036854775807\t\n",
			[]string{"s 0 -9223372036854775808 ", "s 1 9223372036854775807 "}, 0},
		{"lines of Windows", strings.ReplaceAll(header("d", 1, oneStream)+before+after, "\n", "\r\n"), around(), 0},
		{"times", header("d", 1, oneStream) + "-5\t1\t0\t1\ta\n1e300\t1\t1\t2\tb\nnan\t1\t2\t3\tc\n7\t1\t3\t4\td\n",
			[]string{"s 0 1 a", "s 1 2 b", "s 2 3 c", "s 3 4 d"}, 0},
		{"cut last line", header("d", 1, oneStream) + before + "0.2\t1\t1\t12", []string{"s 0 1 before"}, 1},
		{"first version", "protocol: 1\nexperiment-id: d\nstart_time: 1\nsender-id: s\napp-name: app\ncontent: text\nschema: 1 app_t n:long word:string\n\n" + before + after, around(), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t, Options{Linger: time.Hour}, "")
			s.dial(t, c.text).finish()
			within(t, "the connection has ended", func() bool { return len(s.shelf.connections()) == 1 })
			got, ended := s.shelf.of("d_app_t_2"), s.shelf.connections()[0]
			if !slices.Equal(got, c.want) || ended.Faults != c.faults {
				t.Errorf("rows %q, want %q; %+v", got, c.want, ended)
			}
		})
	}
}
