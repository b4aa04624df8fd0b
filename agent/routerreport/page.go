package routerreport

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/router"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"span":      func(ns any) string { return micro(span(number(ns))) },
	"whole":     func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) },
	"each":      func(count uint64, ns any) string { return micro(each(count, number(ns))) },
	"count":     grouped,
	"share":     func(part, whole uint64) string { return micro(share(part, whole)) },
	"length":    lengthText,
	"three":     three,
	"rate":      func(n uint64, seconds float64) string { return grouped(uint64(perSecond(n, seconds) + .5)) },
	"bits":      bits,
	"percent":   func(share float64) float64 { return 100 * share },
	"scope":     Environment.scope,
	"meanwhile": meanwhile,
	"style":     func() template.CSS { return template.CSS(pageStyle) },
}).Parse(pageText))

// micro formats microseconds with the µ sign and a no-break space before the unit.
func micro(text string) string {
	return strings.ReplaceAll(strings.Replace(text, " us", " µs", 1), " ", "\u00a0")
}

// meanwhile describes what a processor is known to have done in a coffee break.
func meanwhile(b router.Break) string {
	var parts []string
	for _, part := range []struct {
		name string
		ns   uint64
	}{{"process " + b.Task, b.TaskNs}, {"other softirqs", b.SoftirqNs}, {"interrupts", b.IRQNs}} {
		if part.ns > 0 {
			parts = append(parts, part.name+" "+micro(span(float64(part.ns))))
		}
	}
	return strings.Join(parts, ", ")
}

func number(value any) float64 {
	switch v := value.(type) {
	case uint64:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

// grouped separates thousands by narrow spaces.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}

// page is the file of the report. It is created before anything is measured, so that
// an invalid path does not cost the user a measurement.
type page struct{ file *outfile.File }

func createPage(ctx context.Context, path outfile.Path) (*page, error) {
	if path == "" {
		return &page{}, nil
	}
	file, err := path.Create(ctx, 0o666)
	if err != nil {
		return nil, fmt.Errorf("create report: %w", err)
	}
	return &page{file}, nil
}

func (p *page) write(r *report, err error) error {
	if p.file == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	buffer := bufio.NewWriter(p.file)
	if err = cmp.Or(pageTemplate.Execute(buffer, r), buffer.Flush()); err == nil {
		err = p.file.Commit()
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (p *page) close() {
	if p.file != nil {
		p.file.Close() // the previous file is left if this one is not complete
	}
}
