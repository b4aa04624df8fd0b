package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is a file or a folder of a layer.
type file struct {
	path  string // without a slash at the beginning; a folder ends with one
	mode  int64
	owner int    // user and group
	from  string // path of the file with the content
	text  string // the content, if from is empty
}

func folder(path string, mode int64) file { return file{path: path + "/", mode: mode} }

// parents returns the folders that contain the files and are not among them, each once, outer ones first.
func parents(files []file) (all []file) {
	seen := map[string]bool{".": true}
	var add func(name string)
	add = func(name string) {
		if seen[name] {
			return
		}
		add(path.Dir(name))
		seen[name] = true
		all = append(all, folder(name, 0o755))
	}
	for _, f := range files {
		if strings.HasSuffix(f.path, "/") {
			seen[strings.TrimSuffix(f.path, "/")] = true
		}
		add(path.Dir(strings.TrimSuffix(f.path, "/")))
	}
	return all
}

// layer packs files in their order into a compressed tar layer. All have the same modification time.
func layer(created time.Time, files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	for _, f := range files {
		content := []byte(f.text)
		if f.from != "" {
			var err error
			if content, err = os.ReadFile(f.from); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{
			Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(content)),
			ModTime: created, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
		if _, err := out.Write(content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress layer: %w", err)
	}
	return l, nil
}

// unpacked returns the size of layers before compression, bytes.
func unpacked(layers ...v1.Layer) (total int64, err error) {
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			return 0, fmt.Errorf("read layer: %w", err)
		}
		size, err := io.Copy(io.Discard, content)
		if err := errors.Join(err, content.Close()); err != nil {
			return 0, fmt.Errorf("read layer: %w", err)
		}
		total += size
	}
	return total, nil
}
