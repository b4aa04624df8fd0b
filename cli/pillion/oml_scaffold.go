package pillion

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"pillion.dev/omsp/scaffold"
)

type omlScaffoldCmd struct {
	Description string `arg:"" predictor:"file" help:"Description of the application, in YAML."`
	File        string `short:"f" placeholder:"FILE" predictor:"file" help:"Output file; default: APP_oml.h in this directory; - is standard output."`
	Force       bool   `help:"Overwrite a file that was not generated."`
}

// Help has the examples.
func (omlScaffoldCmd) Help() string {
	return `The header declares the application's measurement points (oml_register_mps) and has one function for each
of them, oml_inject_POINT, with arguments of the fields' types. Works without a server. A description:

    app: sine
    version: 1.0
    doc: Measures a wave.
    points:
      - name: wave
        doc: One place on the wave.
        fields:
          - {name: phase, type: double, doc: radians}
          - {name: label, type: string}

Types are int32, uint32, int64, uint64, double, string, blob, guid, bool, and vectors such as "[double]".

Examples:

  pillion oml scaffold sine.yaml
  pillion oml scaffold sine.yaml -f include/sine_oml.h`
}

// Run writes the header.
func (c *omlScaffoldCmd) Run(a *app) error {
	text, err := os.ReadFile(c.Description)
	if err != nil {
		return fmt.Errorf("read description: %w", err)
	}
	described, err := scaffold.Parse(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Description, err)
	}
	if c.File == "-" {
		_, err := a.out.Write(described.Header())
		return err
	}
	file := cmp.Or(c.File, described.HeaderName())
	if err := c.mayWrite(file); err != nil {
		return err
	}
	if err := os.WriteFile(file, described.Header(), 0o644); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	return a.done("%s: %d points", file, len(described.Points))
}

// mayWrite rejects an existing file that was not generated.
func (c *omlScaffoldCmd) mayWrite(file string) error {
	old, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || c.Force:
		return nil
	case err != nil:
		return fmt.Errorf("write header: %w", err)
	case len(old) > 0 && !bytes.HasPrefix(old, []byte(scaffold.FirstLine)):
		return fmt.Errorf("write %s: %w: it was not generated; use --force to overwrite it", file, errValue)
	}
	return nil
}
