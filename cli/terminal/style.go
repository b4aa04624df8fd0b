package terminal

import (
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
)

// Codes that change how the text behind them looks. Colours are of the palette of eight, in
// which every theme of a terminal, dark or light, has legible ones.
const (
	Bold    = "\x1b[1m"
	Dim     = "\x1b[2m"
	Reverse = "\x1b[7m"
	Red     = "\x1b[31m"
	Green   = "\x1b[32m"
	Yellow  = "\x1b[33m"
	Plain   = "\x1b[0m"
)

// styles are what codes add to the style of the text before them.
var styles = map[string]func(tcell.Style) tcell.Style{
	Bold:    func(s tcell.Style) tcell.Style { return s.Bold(true) },
	Dim:     func(s tcell.Style) tcell.Style { return s.Dim(true) },
	Reverse: func(s tcell.Style) tcell.Style { return s.Reverse(true) },
	Red:     func(s tcell.Style) tcell.Style { return s.Foreground(color.Maroon) },
	Green:   func(s tcell.Style) tcell.Style { return s.Foreground(color.Green) },
	Yellow:  func(s tcell.Style) tcell.Style { return s.Foreground(color.Olive) },
	Plain:   func(tcell.Style) tcell.Style { return tcell.StyleDefault },
}

// span is text in one style.
type span struct {
	text  string
	style tcell.Style
}

// spans splits a line at its codes. Other escape sequences are left out.
func spans(line string) []span {
	var all []span
	style := tcell.StyleDefault
	for {
		text, rest, found := strings.Cut(line, "\x1b")
		if text != "" {
			all = append(all, span{text, style})
		}
		if !found {
			return all
		}
		end := strings.IndexFunc(strings.TrimPrefix(rest, "["), func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return all
		}
		end += 1 + len(rest) - len(strings.TrimPrefix(rest, "["))
		if change := styles["\x1b"+rest[:end]]; change != nil {
			style = change(style)
		}
		line = rest[end:]
	}
}

// Text is a line without codes.
func Text(line string) string {
	var b strings.Builder
	for _, s := range spans(line) {
		b.WriteString(s.text)
	}
	return b.String()
}

// Fit cuts a line, which may have codes, to a width.
func Fit(line string, width int) string {
	room := utf8.RuneCountInString(Text(line)) <= width
	var b strings.Builder
	for count, rest := 0, line; rest != ""; {
		if code := codeAt(rest); code != "" {
			b.WriteString(code)
			rest = rest[len(code):]
			continue
		}
		_, size := utf8.DecodeRuneInString(rest)
		if count++; !room && count >= width {
			if width > 0 {
				b.WriteString("…" + Plain)
			}
			return b.String()
		}
		b.WriteString(rest[:size])
		rest = rest[size:]
	}
	return b.String()
}

// codeAt returns the code at the beginning of a text, if there is one.
func codeAt(text string) string {
	for code := range styles {
		if strings.HasPrefix(text, code) {
			return code
		}
	}
	return ""
}
