package model

// Float is the number type of a network: float32 to train, float64 to check
// the gradients of the very same code.
type Float interface{ float32 | float64 }

// rowBlock rows of activations stay in the cache during a pass over the
// weights.
const rowBlock = 32

// linearForward computes y = x*w^T + b for rows samples. Row o of w holds the
// weights of output o, so both factors are read along their rows.
func linearForward[T Float](y, x, w, b []T, rows, in, out int) {
	for lo := 0; lo < rows; lo += rowBlock {
		hi := min(lo+rowBlock, rows)
		o := 0
		for ; o+4 <= out; o += 4 {
			w0, w1 := w[o*in:(o+1)*in], w[(o+1)*in:(o+2)*in]
			w2, w3 := w[(o+2)*in:(o+3)*in], w[(o+3)*in:(o+4)*in]
			r := lo
			for ; r+2 <= hi; r += 2 {
				y0, y1 := y[r*out+o:r*out+o+4], y[(r+1)*out+o:(r+1)*out+o+4]
				copy(y0, b[o:o+4])
				copy(y1, b[o:o+4])
				dot2x4(y0, y1, x[r*in:(r+1)*in], x[(r+1)*in:(r+2)*in], w0, w1, w2, w3)
			}
			for ; r < hi; r++ {
				xr := x[r*in : (r+1)*in]
				yr := y[r*out+o : r*out+o+4]
				yr[0] = b[o] + dot(xr, w0)
				yr[1] = b[o+1] + dot(xr, w1)
				yr[2] = b[o+2] + dot(xr, w2)
				yr[3] = b[o+3] + dot(xr, w3)
			}
		}
		for ; o < out; o++ {
			wo := w[o*in : (o+1)*in]
			for r := lo; r < hi; r++ {
				y[r*out+o] = b[o] + dot(x[r*in:(r+1)*in], wo)
			}
		}
	}
}

// linearBackwardInput computes dx = dy*w.
func linearBackwardInput[T Float](dx, dy, w []T, rows, in, out int) {
	clear(dx[:rows*in])
	for lo := 0; lo < rows; lo += rowBlock {
		hi := min(lo+rowBlock, rows)
		o := 0
		for ; o+4 <= out; o += 4 {
			w0, w1 := w[o*in:(o+1)*in], w[(o+1)*in:(o+2)*in]
			w2, w3 := w[(o+2)*in:(o+3)*in], w[(o+3)*in:(o+4)*in]
			r := lo
			for ; r+2 <= hi; r += 2 {
				axpy2x4(dx[r*in:(r+1)*in], dx[(r+1)*in:(r+2)*in], w0, w1, w2, w3,
					[4]T(dy[r*out+o:]), [4]T(dy[(r+1)*out+o:]))
			}
			for ; r < hi; r++ {
				dr := dx[r*in : (r+1)*in]
				g := [4]T(dy[r*out+o:])
				axpy(dr, w0, g[0])
				axpy(dr, w1, g[1])
				axpy(dr, w2, g[2])
				axpy(dr, w3, g[3])
			}
		}
		for ; o < out; o++ {
			for r := lo; r < hi; r++ {
				axpy(dx[r*in:(r+1)*in], w[o*in:(o+1)*in], dy[r*out+o])
			}
		}
	}
}

// linearBackwardWeights adds dy^T*x to dw and the column sums of dy to db.
func linearBackwardWeights[T Float](dw, db, dy, x []T, rows, in, out int) {
	for r := range rows {
		axpy(db, dy[r*out:(r+1)*out], 1)
	}
	o := 0
	for ; o+2 <= out; o += 2 {
		d0, d1 := dw[o*in:(o+1)*in], dw[(o+1)*in:(o+2)*in]
		r := 0
		for ; r+4 <= rows; r += 4 {
			i := r*out + o
			a0 := [4]T{dy[i], dy[i+out], dy[i+2*out], dy[i+3*out]}
			a1 := [4]T{dy[i+1], dy[i+out+1], dy[i+2*out+1], dy[i+3*out+1]}
			axpy2x4(d0, d1, x[r*in:(r+1)*in], x[(r+1)*in:(r+2)*in],
				x[(r+2)*in:(r+3)*in], x[(r+3)*in:(r+4)*in], a0, a1)
		}
		for ; r < rows; r++ {
			xr := x[r*in : (r+1)*in]
			axpy(d0, xr, dy[r*out+o])
			axpy(d1, xr, dy[r*out+o+1])
		}
	}
	for ; o < out; o++ {
		for r := range rows {
			axpy(dw[o*in:(o+1)*in], x[r*in:(r+1)*in], dy[r*out+o])
		}
	}
}

func dot[T Float](a, b []T) T {
	b = b[:len(a)]
	var s T
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// dot2x4 adds the eight products of two rows with four rows: six loads serve
// eight multiplications, and eight independent sums hide the adder's latency.
func dot2x4[T Float](y0, y1, x0, x1, w0, w1, w2, w3 []T) {
	n := len(x0)
	x1, w0, w1, w2, w3 = x1[:n], w0[:n], w1[:n], w2[:n], w3[:n]
	var a0, a1, a2, a3, b0, b1, b2, b3 T
	for i, p := range x0 {
		q := x1[i]
		v := w0[i]
		a0 += p * v
		b0 += q * v
		v = w1[i]
		a1 += p * v
		b1 += q * v
		v = w2[i]
		a2 += p * v
		b2 += q * v
		v = w3[i]
		a3 += p * v
		b3 += q * v
	}
	y0, y1 = y0[:4], y1[:4]
	y0[0] += a0
	y0[1] += a1
	y0[2] += a2
	y0[3] += a3
	y1[0] += b0
	y1[1] += b1
	y1[2] += b2
	y1[3] += b3
}

func axpy[T Float](dst, src []T, a T) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += a * src[i]
	}
}

// axpy2x4 adds four scaled rows to each of two rows, so that the two rows are
// read and written once instead of four times.
func axpy2x4[T Float](d0, d1, s0, s1, s2, s3 []T, a, b [4]T) {
	n := len(d0)
	d1, s0, s1, s2, s3 = d1[:n], s0[:n], s1[:n], s2[:n], s3[:n]
	a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
	b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
	for i := range d0 {
		p, q := d0[i], d1[i]
		v := s0[i]
		p += a0 * v
		q += b0 * v
		v = s1[i]
		p += a1 * v
		q += b1 * v
		v = s2[i]
		p += a2 * v
		q += b2 * v
		v = s3[i]
		p += a3 * v
		q += b3 * v
		d0[i], d1[i] = p, q
	}
}
