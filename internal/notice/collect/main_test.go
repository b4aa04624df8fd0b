package main

import "testing"

func TestSPDX(t *testing.T) {
	const bsd = "Redistribution and use in source and\n binary forms, with or without"
	for text, want := range map[string]string{
		"Apache License\n  Version 2.0, January 2004":          "Apache-2.0",
		"Mozilla Public License, version 2.0":                  "MPL-2.0",
		"Permission is hereby granted, free of charge, to any": "MIT",
		"Permission to use, copy, modify, and/or distribute":   "ISC",
		bsd: "BSD-2-Clause",
		bsd + " ... be used to endorse or promote products":               "BSD-3-Clause",
		bsd + ", endorse or promote products\nApache License Version 2.0": "BSD-2-Clause",
		"All rights reserved.": "",
	} {
		if got := spdx(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestFolderWithoutLicence(t *testing.T) {
	if text, err := licenceOf(t.TempDir()); err == nil {
		t.Errorf("got %q", text)
	}
}
