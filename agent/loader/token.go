package loader

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// tokenMax bounds the token of the Kubernetes API, bytes.
const tokenMax = 64 << 10

var errNoToken = errors.New("the configuration of the agent does not use the Kubernetes API")

// Token reads the token of the Kubernetes API, which Kubernetes replaces about every hour.
func (l *Loader) Token() ([]byte, error) {
	if l.options.TokenFile == "" {
		return nil, errNoToken
	}
	file, err := os.Open(l.options.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read token of the Kubernetes API: %w", err)
	}
	defer file.Close()
	token, err := io.ReadAll(io.LimitReader(file, tokenMax+1))
	if err == nil && len(token) > tokenMax {
		err = fmt.Errorf("%s has more than %d KiB", l.options.TokenFile, tokenMax>>10)
	}
	if err != nil {
		return nil, fmt.Errorf("read token of the Kubernetes API: %w", err)
	}
	return token, nil
}
