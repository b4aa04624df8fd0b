// Package pillion is the root of the module and holds no code: it is where the
// layout test lives, which checks that the tree is still the diagram that the
// README draws. The rooms below it do the work.
package pillion
