package pillion

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"

	"pillion.dev/cli/command"
	"pillion.dev/cli/pillion"
	"pillion.dev/internal/outfile"
	"pillion.dev/oml/omsp/scaffold"
)

type omlScaffoldCmd struct {
	Description string       `arg:"" predictor:"file" help:"Description of the application, in YAML."`
	File        outfile.Path `short:"f" placeholder:"FILE" predictor:"file" help:"Output file; default: APP_oml.h in this directory; - is standard output."`
	Force       bool         `help:"Overwrite a file that was not generated."`
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
func (c *omlScaffoldCmd) Run(ctx context.Context, a *pillion.App) error {
	text, err := os.ReadFile(c.Description)
	if err != nil {
		return fmt.Errorf("read description: %w", err)
	}
	described, err := scaffold.Parse(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Description, err)
	}
	if c.File == outfile.Stdout {
		_, err := a.Out().Write(described.Header())
		return err
	}
	file := cmp.Or(c.File, outfile.Path(described.HeaderName()))
	if err := c.mayWrite(file); err != nil {
		return err
	}
	err = file.Replace(ctx, 0o666, func(to *os.File) error {
		_, err := to.Write(described.Header())
		return err
	})
	if err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	return a.Written(file, "%s: %d points", file, len(described.Points))
}

// mayWrite rejects an existing regular file that was not generated.
func (c *omlScaffoldCmd) mayWrite(file outfile.Path) error {
	if c.Force || !file.IsRegular() {
		return nil
	}
	old, err := os.ReadFile(string(file))
	switch {
	case err != nil:
		return fmt.Errorf("write header: %w", err)
	case len(old) > 0 && !bytes.HasPrefix(old, []byte(scaffold.FirstLine)):
		return fmt.Errorf("write %s: %w: it was not generated; use --force to overwrite it", file, command.ErrValue)
	}
	return nil
}
