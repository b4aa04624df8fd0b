package agent

import (
	"io"
	"os"

	"pillion.dev/internal/outfile"
)

// RecordFlags say where the records of a measurement go.
type RecordFlags struct {
	Records outfile.Path `placeholder:"FILE" help:"Write records while they come, one a line; - is standard output, unix:PATH a socket. A reader of a FIFO, a socket or a pipe that is too slow loses records, which are counted."`
	Format  string       `name:"records-format" enum:",csv,ndjson" default:"" placeholder:"NAME" help:"Format of records, csv or ndjson; default: ndjson if the name of the file ends so, else csv."`
}

// File is the file of the records.
func (f RecordFlags) File() outfile.RecordsFile {
	return outfile.RecordsFile{Path: f.Records, Format: f.Format}
}

// Out is where everything else is printed: not among records.
func (f RecordFlags) Out() io.Writer {
	if f.Records != "" && f.Records.IsStdout() {
		return os.Stderr
	}
	return os.Stdout
}
