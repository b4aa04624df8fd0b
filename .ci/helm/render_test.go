package helm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// merge puts the values of over into a copy of base, as Helm does: maps are merged, others replaced.
func merge(base, over map[string]any) map[string]any {
	all := maps.Clone(base)
	for key, value := range over {
		below, isMap := value.(map[string]any)
		if default_, ok := all[key].(map[string]any); ok && isMap {
			value = merge(default_, below)
		}
		all[key] = value
	}
	return all
}

// load reads a file of the chart.
func load(path string, target any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, target)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// validated merges values into the chart's and validates them by its schema.
func validated(chart, given string) (map[string]any, error) {
	var values, over map[string]any
	var schema any
	if err := errors.Join(load(chart+"/values.yaml", &values), load(chart+"/values.schema.json", &schema), yaml.UnmarshalStrict([]byte(given), &over)); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	if err := compiler.AddResource("values.schema.json", schema); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile("values.schema.json")
	if err != nil {
		return nil, err
	}
	values = merge(values, over)
	return values, compiled.Validate(values)
}

// execute renders the templates of the chart by Helm's functions, of which most are sprig's.
func execute(chart, given string) (map[string]string, error) {
	values, err := validated(chart, given)
	if err != nil {
		return nil, err
	}
	var about map[string]any
	if err := load(chart+"/Chart.yaml", &about); err != nil {
		return nil, err
	}
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["fail"] = func(why string) (string, error) { return "", errors.New(why) }
	functions["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["include"] = func(name string, data any) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	paths, err := filepath.Glob(chart + "/templates/*")
	if err != nil {
		return nil, err
	}
	if all, err = all.Funcs(functions).ParseFiles(paths...); err != nil {
		return nil, err
	}
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release": map[string]any{"Name": "test", "Namespace": "net", "Service": "Helm"},
	}
	files := map[string]string{}
	for _, path := range paths {
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, filepath.Base(path), data); err != nil {
			return nil, err
		}
		files[filepath.Base(path)] = out.String()
	}
	return files, nil
}
