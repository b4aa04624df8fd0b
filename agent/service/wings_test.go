package service

import (
	"pillion.dev/agent/capture"
	"pillion.dev/agent/loader"
)

func init() { loader.RegisterCapturer(capture.Devices{}) }
