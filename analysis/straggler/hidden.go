package straggler

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/trainspan/trainspan/internal/robust"
)

// suspect asks whose jitter drives the common period, when the wait hides the
// phase that may be slow: a rank that waits absorbs its own jitter, and the rank
// that everybody waits for passes it on. It is a suspicion, because a rank
// that is merely the noisiest looks like it now and then.
func (a *analysis) suspect() (rank int, ok bool) {
	rd := a.rd
	n, m := rd.n(), rd.m()
	// Four rounds per unknown, and at least 60, make the estimate usable.
	if m < max(60, 4*n) {
		return 0, false
	}
	y := centred(rd.p)
	x := mat.NewDense(m, n, nil)
	col := make([]float64, m)
	for r := range n {
		for s := range col {
			col[s] = rd.own.at(r, s)
		}
		x.SetCol(r, centred(col))
	}
	beta, se, fine := leastSquares(x, y)
	if !fine {
		return 0, false
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if beta[i] > beta[j] {
			return -1
		}
		return 1
	})
	b, c := order[0], order[1]
	// One rank passes on most of its jitter, no other passes on half of that
	// of a rank that is waited for, and the difference is no chance.
	ok = beta[b] > 0.6 && beta[b] > 5*se[b] && beta[c] < 0.4 &&
		beta[b]-beta[c] > 3*math.Hypot(se[b], se[c])
	return b, ok
}

// centred takes the median out and clips at four deviations, so that pauses do
// not decide.
func centred(x []float64) []float64 {
	out := slices.Clone(x)
	mid := levelOf(out)
	mad := robust.MAD(slices.DeleteFunc(slices.Clone(x), math.IsNaN))
	for i := range out {
		if math.IsNaN(out[i]) {
			out[i] = mid
		}
		out[i] = min(max(out[i]-mid, -4*mad), 4*mad)
	}
	return out
}

// leastSquares solves x·b = y and gives the standard errors of b.
func leastSquares(x *mat.Dense, y []float64) (b, se []float64, ok bool) {
	m, n := x.Dims()
	// In units of the largest value, so that the condition says something.
	unit := mat.Max(x)
	if unit <= 0 {
		return nil, nil, false
	}
	x.Scale(1/unit, x)
	yv := mat.NewVecDense(m, slices.Clone(y))
	yv.ScaleVec(1/unit, yv)
	var gram mat.SymDense
	gram.SymOuterK(1, x.T())
	var chol mat.Cholesky
	if !chol.Factorize(&gram) {
		return nil, nil, false
	}
	var right, bv, fit mat.VecDense
	right.MulVec(x.T(), yv)
	if chol.SolveVecTo(&bv, &right) != nil {
		return nil, nil, false
	}
	fit.MulVec(x, &bv)
	fit.SubVec(yv, &fit)
	s2 := mat.Dot(&fit, &fit) / float64(m-n)
	var inv mat.SymDense
	if chol.InverseTo(&inv) != nil {
		return nil, nil, false
	}
	b, se = make([]float64, n), make([]float64, n)
	for i := range b {
		b[i] = bv.AtVec(i)
		se[i] = math.Sqrt(s2 * inv.At(i, i))
	}
	return b, se, true
}

// missingDrives says whether a rank without data may be the one that the others
// wait for. Where the ranks with data decide how long a step takes, the step
// follows the slowest of them one to one, and the shortest collective is
// the transfer. Where another rank decides, the shortest collective is the
// slack of the slowest of them, and shrinks when that one is later.
func (a *analysis) missingDrives() bool {
	rd := a.rd
	if rd.barrier != atCollective {
		return false // nothing is called healthy there anyway
	}
	if !rd.beside {
		// In the other collectives of a step it cannot be told from the transfer.
		others := rd.world.clone()
		for i, v := range rd.wait.v {
			others.v[i] -= v
		}
		if levelOf(a.shortest(others, a.everyone())) > a.opt.MinCost*rd.typical {
			return true
		}
	}
	short := a.shortest(rd.wait, a.everyone())
	top := make([]float64, rd.m())
	for s := range top {
		for r := range rd.n() {
			top[s] = max(top[s], rd.own.at(r, s))
		}
	}
	// A share of 30 % of the step is long for a transfer.
	if levelOf(short) > 0.3*rd.typical {
		return true
	}
	// Any rise is reason enough to abstain, also one that noise might explain.
	segs := segments(short, splitNoise(short), 0.015*rd.typical)
	for i := 1; i < len(segs); i++ {
		if segs[i].level > 1.2*segs[i-1].level {
			return true
		}
	}
	x, y := centred(top), centred(short)
	beta, se, ok := leastSquares(mat.NewDense(len(x), 1, x), y)
	// What all ranks share makes the other rank follow the slowest by a third
	// to a half, so that the slope is no -1. Abstaining without need costs
	// little: two standard errors do.
	return ok && beta[0] < -0.2 && beta[0] < -2*se[0]
}
