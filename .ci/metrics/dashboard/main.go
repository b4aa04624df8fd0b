// Command dashboard checks Grafana dashboards strictly against Grafana's schemas, and their PromQL
// expressions with Prometheus's parser. It prints each expression as a line of JSON, with the names of the
// metrics in it. The arguments are the files of the dashboards.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	plugins.RegisterDefaultPlugins()
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "check %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

// source has the parts of a dashboard that contain expressions.
type source struct {
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
}

type panel struct {
	Title   string
	Targets []struct{ RefID, Expr string }
	Panels  []panel
}

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var strict dashboard.Dashboard
	// An empty list is no error: it is returned for data sources whose queries have no schema in the library.
	var faults cog.BuildErrors
	if err := strict.UnmarshalJSONStrict(text); err != nil && (!errors.As(err, &faults) || len(faults) > 0) {
		return fmt.Errorf("schema: %w", err)
	}
	if err := strict.Validate(); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	var s source
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	for _, p := range s.Panels {
		err = errors.Join(err, p.check(path))
	}
	return err
}

func (p panel) check(path string) (err error) {
	for _, target := range p.Targets {
		if target.Expr != "" {
			err = errors.Join(err, expression(path, p.Title, target.Expr))
		}
	}
	for _, inner := range p.Panels {
		err = errors.Join(err, inner.check(path))
	}
	return err
}

// variable matches a variable of a dashboard, which Grafana replaces before it queries Prometheus.
var variable = regexp.MustCompile(`\$(\w+|\{\w+(:\w+)?\})`)

func replaced(name string) string {
	if strings.Contains(name, "interval") || strings.Contains(name, "range") {
		return "1m"
	}
	return ".*"
}

func expression(path, title, text string) error {
	text = variable.ReplaceAllStringFunc(text, replaced)
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", title, text, err)
	}
	var metrics []string
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			for _, m := range selector.LabelMatchers {
				if m.Name == labels.MetricName {
					metrics = append(metrics, m.Value)
				}
			}
		}
		return nil
	})
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"file": path, "panel": title, "expression": text, "metrics": metrics})
}
