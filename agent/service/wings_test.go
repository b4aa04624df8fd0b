package service

import (
	"pillion.dev/agent/loader"
	"pillion.dev/oml/capture"
)

func init() { loader.RegisterCapturer(capture.Devices{}) }
