// Command pack compresses the files of the built page with the best compression, which
// would be too slow at every start of the server: NAME.br beside NAME.
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/andybalholm/brotli"
)

// least is the size in bytes below which compression gains nothing.
const least = 512

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pack FOLDER")
		os.Exit(2)
	}
	if err := filepath.WalkDir(os.Args[1], pack); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(path string, entry fs.DirEntry, err error) error {
	if err != nil || entry.IsDir() || strings.HasSuffix(path, ".br") {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil || len(content) < least {
		return err
	}
	var packed bytes.Buffer
	w := brotli.NewWriterOptions(&packed, brotli.WriterOptions{Quality: brotli.BestCompression, LGWin: 22})
	w.Write(content) // writes to a buffer cannot fail
	if err := w.Close(); err != nil {
		return fmt.Errorf("compress %s: %w", path, err)
	}
	return os.WriteFile(path+".br", packed.Bytes(), 0o644)
}
