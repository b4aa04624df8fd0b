module pillion.dev

go 1.26
