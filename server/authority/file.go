package authority

import (
	"os"
	"strings"
)

func readSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}
