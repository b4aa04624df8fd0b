//go:build long

package machine

import (
	"regexp"
	"strings"
)

// report is parsed from the guest's console.
type report struct {
	kernel string
	// suite is the package that runs.
	suite string
	// verdicts: package and test to PASS, FAIL or SKIP.
	verdicts map[string]string
	// failed: package to the error of its test binary.
	failed map[string]string
	done   bool
}

var verdictLine = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) `)

func (r *report) read(line string) {
	if kernel, ok := strings.CutPrefix(line, kernelLine); ok {
		r.kernel = kernel
	} else if suite, ok := strings.CutPrefix(line, suiteLine); ok {
		r.suite = suite
	} else if text, ok := strings.CutPrefix(line, failedLine); ok {
		name, cause, _ := strings.Cut(text, ": ")
		r.failed[name] = cause
	} else if m := verdictLine.FindStringSubmatch(line); m != nil {
		r.verdicts[r.suite+" "+m[2]] = m[1]
	}
	r.done = r.done || line == doneLine
}
