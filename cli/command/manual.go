package command

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"pillion.dev/internal/version"
)

// Manual is what a program's help does not say: the beginning of the document of its commands,
// and a part of its manual page.
type Manual struct {
	// Section of the manual page.
	Section int
	// Text is Markdown: paragraphs, lists, tables of two columns, and headings of second level;
	// ${values} stands for Values.
	Text string
	// See names other manual pages, as pillion(1).
	See []string
}

// Markdown returns the text.
func (m Manual) Markdown() string { return strings.Replace(m.Text, "${values}\n", Values, 1) }

// Man is the command that prints the manual page of a program.
type Man struct{}

// Run prints the page. Its date is the commit's, so that a build always prints the same.
func (Man) Run(line *kong.Context, manual Manual) error {
	date := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				date, _, _ = strings.Cut(s.Value, "T")
			}
		}
	}
	_, err := fmt.Fprint(os.Stdout, manual.Page(line.Model, version.Short(), date))
	return err
}

// environment is the heading of the section that also lists the variables of options.
const environment = "Environment"

// Page returns the manual page of a program, in the language of man(7).
func (m Manual) Page(model *kong.Application, build, date string) string {
	var p page
	p.macro("TH", strings.ToUpper(model.Name), fmt.Sprint(m.Section), date, "Pillion "+build, "Pillion")
	p.macro("SH", "NAME")
	p.line(escape(model.Name) + ` \- ` + escape(strings.TrimSuffix(model.Help, ".")))
	p.macro("SH", "SYNOPSIS")
	p.line(bold(model.Name) + ` [\fIoption\fR ...] \fIcommand\fR [\fIargument\fR ...]`)
	description, topics, _ := strings.Cut(m.Markdown(), "\n## ")
	p.macro("SH", "DESCRIPTION")
	p.markdown(description)
	if options := Options(model.Flags); len(options) > 0 {
		p.macro("SH", "OPTIONS")
		p.entries(options)
	}
	p.macro("SH", "COMMANDS")
	for _, node := range Commands(model) {
		p.command(node)
	}
	for topic := range strings.SplitSeq(topics, "\n## ") {
		heading, text, _ := strings.Cut(topic, "\n")
		if text = strings.TrimSpace(text); text == "" {
			continue // a heading of the document alone
		}
		p.macro("SH", strings.ToUpper(heading))
		p.markdown(text)
		if heading == environment {
			p.entries(variables(model))
		}
	}
	p.macro("SH", "SEE ALSO")
	p.line(escape(strings.Join(append(slices.Clone(m.See), "https://pillion.dev"), ", ")))
	return p.String()
}

// variables lists the environment variables that set options.
func variables(model *kong.Application) []Entry {
	options := map[string][]string{}
	Walk(model.Node, func(node *kong.Node) {
		for _, flag := range node.Flags {
			for _, name := range flag.Envs {
				if where := "--" + flag.Name; !flag.Hidden {
					if path := Path(node); path != "" {
						where += " of " + path
					}
					options[name] = append(options[name], where)
				}
			}
		}
	})
	var entries []Entry
	for name, where := range options {
		entries = append(entries, Entry{name, "Sets " + strings.Join(where, ", ") + "."})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

// page is a manual page that is being written.
type page struct{ strings.Builder }

func (p *page) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	p.WriteString(text + "\n")
}

func (p *page) macro(name string, arguments ...string) {
	p.WriteString("." + name)
	for _, a := range arguments {
		p.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	p.WriteString("\n")
}

func (p *page) entries(entries []Entry) {
	for _, e := range entries {
		p.WriteString(".TP\n")
		p.line(bold(e.Name))
		p.line(inline(e.Text))
	}
}

func (p *page) command(node *kong.Node) {
	p.macro("SS", Path(node))
	p.line(inline(node.Help))
	text, examples := Detail(node)
	if text != "" {
		p.WriteString(".PP\n")
		p.markdown(text)
	}
	if examples != "" {
		p.WriteString(".PP\nExamples:\n.PP\n.RS 4\n.EX\n")
		for line := range strings.Lines(examples) {
			p.line(escape(strings.TrimSuffix(line, "\n")))
		}
		p.WriteString(".EE\n.RE\n")
	}
	p.entries(slices.Concat(Arguments(node), Options(node.Flags)))
}

// markdown writes a text of Manual.
func (p *page) markdown(text string) {
	broken := false // a paragraph begins with the next line
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		item, isItem := strings.CutPrefix(line, "- ")
		switch {
		case line == "":
			broken = true
			continue
		case isItem:
			p.WriteString(".IP \\(bu 2\n")
			p.line(inline(item))
		case strings.HasPrefix(line, "|"):
			p.row(line)
		default:
			if broken {
				p.WriteString(".PP\n")
			}
			p.line(inline(line))
		}
		broken = false
	}
}

// row writes a row of a table, unless it is the heading of one.
func (p *page) row(line string) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 2 || strings.HasPrefix(line, "|--") || strings.TrimSpace(cells[0]) == "" || strings.TrimSpace(cells[1]) == "" {
		return
	}
	p.entries([]Entry{{strings.Trim(strings.TrimSpace(cells[0]), "`"), strings.TrimSpace(cells[1])}})
}

var (
	code = regexp.MustCompile("`([^`]+)`")
	link = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
)

// inline returns a line of text with code in bold and links as their text.
func inline(text string) string {
	text = link.ReplaceAllString(strings.ReplaceAll(text, "\n", " "), "$1")
	return code.ReplaceAllString(escape(text), `\fB$1\fR`)
}

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

// escape protects what man(7) would interpret. Hyphens stay hyphens, so that options can be
// copied from the page.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}
