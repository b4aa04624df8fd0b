package terminal

import (
	"errors"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v3/vt"
)

// contents are the lines of a terminal.
func contents(t vt.MockTerm, width, height int) []string {
	var lines []string
	for y := range height {
		var b strings.Builder
		for x := range width {
			text := t.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C
			if text == "" {
				text = " "
			}
			b.WriteString(text)
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

func openMock(t *testing.T, colors bool) (*Screen, vt.MockTerm) {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	mock := vt.NewMockTerm(vt.MockOptSize(vt.Coord{X: 20, Y: 4}))
	s, err := openOn(mock, colors)
	if err != nil {
		t.Fatal(err)
	}
	return s, mock
}

func TestDraw(t *testing.T) {
	s, mock := openMock(t, true)
	defer s.Close()
	s.Draw(func(width, height int) []string {
		if width != 20 || height != 4 {
			t.Errorf("size %d × %d", width, height)
		}
		return []string{Bold + "title" + Plain + " is here", "P50 " + Red + "7 µs" + Plain + " ▁▂█", "東京 > a", "a line that is longer than the terminal"}
	})
	if err := mock.Drain(); err != nil {
		t.Fatal(err)
	}
	got := contents(mock, 20, 4)
	for i, want := range []string{"title is here", "P50 7 µs ▁▂█", "東", "a line that is longe"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("line %d is %q, want %q", i, got[i], want)
		}
	}
	style := func(x, y int) vt.Style { return mock.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).S }
	if style(0, 0).Attr()&vt.Bold == 0 || style(6, 0).Attr()&vt.Bold != 0 {
		t.Error("the title is not bold, or all is")
	}
	if style(4, 1).Fg() == style(0, 1).Fg() {
		t.Error("the delay has no colour")
	}
}

func TestDrawWithoutColors(t *testing.T) {
	s, mock := openMock(t, false)
	defer s.Close()
	s.Draw(func(int, int) []string { return []string{Red + "red" + Plain + "plain"} })
	if err := mock.Drain(); err != nil {
		t.Fatal(err)
	}
	if red, other := mock.GetCell(vt.Coord{}).S.Fg(), mock.GetCell(vt.Coord{X: 4}).S.Fg(); red != other {
		t.Errorf("colours %v and %v", red, other)
	}
}

func TestKeys(t *testing.T) {
	s, mock := openMock(t, true)
	defer s.Close()
	for _, test := range []struct{ sent, want string }{
		{"q", "q"}, {"/", "/"}, {"é", "é"}, {"\r", Enter}, {"\x7f", Backspace}, {"\t", Tab}, {"\x03", Interrupt},
		{"\x1b[A", Up}, {"\x1b[B", Down}, {"\x1b[5~", PageUp}, {"\x1b[6~", PageDown}, {"\x1b[H", Home}, {"\x1b[F", End}, {"\x1b", Escape}, {"\x0c", Resize},
	} {
		mock.SendRaw([]byte(test.sent))
		got := <-s.Keys()
		for got == Resize && test.want != Resize {
			got = <-s.Keys() // the size when the screen was opened
		}
		if got != test.want {
			t.Errorf("%q is the key %q, want %q", test.sent, got, test.want)
		}
	}
}

func TestResize(t *testing.T) {
	s, mock := openMock(t, true)
	defer s.Close()
	mock.SetSize(vt.Coord{X: 30, Y: 5})
	for width := 0; width != 30; {
		if key := <-s.Keys(); key != Resize {
			t.Fatalf("key %q", key)
		}
		s.Draw(func(now, _ int) []string { width = now; return nil })
	}
}

func TestOpenWithoutTerminal(t *testing.T) {
	if _, err := Open(true); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}

func FuzzSpans(f *testing.F) {
	for _, line := range []string{"plain", Bold + "a" + Plain + "b", "\x1b", "\x1b[", "\x1b[1", "\x1b]0;title\x07", "\x1b[31m\x1b[1mx", "é\x1b[m"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if text := Text(line); strings.Contains(text, "\x1b") {
			t.Errorf("%q has an escape", text)
		}
	})
}
