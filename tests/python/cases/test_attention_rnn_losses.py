"""Attention, recurrent layers, embeddings and losses against CPU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from device_under_test import both_raise, check, grads, inp, module, ref


@ref("pytorch/pytorch#181133", "pytorch/pytorch#163597")
def test_attention_on_permuted_heads():
    def f(dev):
        q, k, v = (
            inp(4, 9, 3, 64, seed=i).to(dev).permute(0, 2, 1, 3) for i in (80, 81, 82)
        )
        kk = torch.cat([k, k], 2)[:, :, 2:11]
        return (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, kk, v, is_causal=True),
            F.scaled_dot_product_attention(
                q[:, :1].expand(-1, 3, -1, -1), k, v, scale=0.3
            ),
        )

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#156707", "pytorch/pytorch#167515")
def test_attention_masks():
    def f(dev):
        q, k, v = (inp(2, 4, 8, 16, seed=i).to(dev) for i in (83, 84, 85))
        none = torch.ones(2, 1, 8, 8, dtype=torch.bool, device=dev)
        none[0, 0, 3] = False
        outs = [F.scaled_dot_product_attention(q, k, v, attn_mask=none)]
        with torch.no_grad():
            outs.append(F.scaled_dot_product_attention(q, k, v, attn_mask=none))
        add = torch.zeros(2, 1, 8, 8, device=dev)
        add[0, 0, 4:, :4] = float("-inf")
        outs.append(F.scaled_dot_product_attention(q, k, v, attn_mask=add))
        return outs

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#151667")
def test_multihead_attention_module():
    def f(dev):
        mha = module(lambda: nn.MultiheadAttention(16, 4, batch_first=True), dev).eval()
        x = inp(2, 5, 16, seed=86).to(dev)
        pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2], device=dev)
        causal = torch.triu(torch.ones(5, 5, dtype=torch.bool, device=dev), 1)
        return mha(x, x, x, key_padding_mask=pad), mha(
            x, x, x, attn_mask=causal, need_weights=False
        )[0]

    check(f, rtol=1e-4, atol=1e-5)


@ref("pytorch/pytorch#94754", "pytorch/pytorch#80306", "pytorch/pytorch#90421")
def test_lstm_variants_forward_and_backward():
    def f(dev):
        outs = []
        for layers in (1, 2):
            for bi in (False, True):
                for bf in (False, True):
                    m = module(
                        lambda: nn.LSTM(
                            5, 4, num_layers=layers, bidirectional=bi, batch_first=bf
                        ),
                        dev,
                    )
                    x = inp(3, 2, 5, seed=87).to(dev).requires_grad_()
                    y, (h, c) = m(x)
                    (y.pow(2).sum() + h.sum() - c.sum()).backward()
                    outs.append([y, h, c, x.grad] + grads(m))
        return outs

    check(f, rtol=1e-3, atol=1e-5)


@ref("pytorch/pytorch#94691")
def test_gru_and_cells():
    def f(dev):
        g = module(lambda: nn.GRU(5, 4, 2, bidirectional=True), dev)
        x = inp(6, 3, 5, seed=90).to(dev)
        y, h = g(x)
        lc, gc = (
            module(lambda: nn.LSTMCell(5, 4), dev),
            module(lambda: nn.GRUCell(5, 4), dev),
        )
        hc = (torch.zeros(3, 4, device=dev), torch.zeros(3, 4, device=dev))
        s = torch.zeros(3, 4, device=dev)
        for t in range(6):
            hc = lc(x[t], hc)
            s = gc(x[t], s)
        (hc[0].sum() + s.sum() + y.sum()).backward()
        return y, h, hc, s, grads(lc), grads(gc), grads(g)

    check(f, rtol=1e-3, atol=1e-5)


@ref("pytorch/pytorch#103023", "pytorch/pytorch#26302", "pytorch/pytorch#28716")
def test_embedding_padding_row_gets_no_gradient():
    def f(dev):
        e = module(lambda: nn.Embedding(5, 3, padding_idx=0), dev)
        ids = torch.tensor([[0, 1, 1, 2]], device=dev)
        e(ids).sum().backward()
        e2 = module(lambda: nn.Embedding(10, 8, padding_idx=0), dev)
        e2(torch.zeros(1, 1025, dtype=torch.int64, device=dev)).sum().backward()
        return e.weight.grad, e2.weight.grad, e(ids)

    check(f)
    assert f("cpu")[0][:, 0].tolist() == [0.0, 2.0, 1.0, 0.0, 0.0]


@ref("pytorch/pytorch#123119", "pytorch/pytorch#189971", "pytorch/pytorch#169201")
def test_embedding_range_errors():
    both_raise(
        lambda dev: F.embedding(
            torch.tensor([5], device=dev), torch.ones(5, 2, device=dev)
        ),
        (IndexError, RuntimeError),
    )
    both_raise(
        lambda dev: F.embedding_bag(
            torch.tensor([5], device=dev),
            torch.ones(5, 2, device=dev),
            torch.tensor([0], device=dev),
        ),
        (IndexError, RuntimeError),
    )
    both_raise(
        lambda dev: F.embedding_bag(
            torch.tensor([[-1]], device=dev), torch.ones(5, 2, device=dev)
        ),
        (IndexError, RuntimeError),
    )


@ref("pytorch/pytorch#108148", "pytorch/pytorch#75181", "pytorch/pytorch#20406")
def test_cross_entropy_with_ignored_targets():
    def f(dev):
        x = inp(4, 3, seed=91).to(dev).requires_grad_()
        t = torch.tensor([1, -100, 0, 2], device=dev)
        outs = [F.cross_entropy(x, t, reduction=r) for r in ("none", "mean", "sum")]
        outs += [
            F.cross_entropy(x, torch.full((4,), -1, device=dev), ignore_index=-1),
            F.cross_entropy(
                x,
                torch.tensor([1, 1, 2, 2], device=dev),
                ignore_index=2,
                reduction="none",
            ),
        ]
        outs[1].backward()
        return outs, x.grad

    check(f, rtol=1e-4, atol=1e-6)
    both_raise(
        lambda dev: F.cross_entropy(
            torch.zeros(2, 3, device=dev), torch.tensor([0, 5], device=dev)
        ),
        (IndexError, RuntimeError),
    )
    both_raise(
        lambda dev: F.cross_entropy(
            torch.zeros(2, 3, device=dev),
            torch.tensor([0, -100], device=dev),
            ignore_index=-1,
        ),
        (IndexError, RuntimeError),
    )


@ref("pytorch/pytorch#69339", "pytorch/pytorch#91383")
def test_cross_entropy_weight_and_smoothing_together():
    def f(dev):
        x = inp(5, 3, 4, seed=92).to(dev).requires_grad_()
        t = torch.tensor([[0, 1, 2, -100]] * 5, device=dev)
        w = torch.tensor([0.2, 0.3, 1.5], device=dev)
        out = [
            F.cross_entropy(x, t, weight=w, label_smoothing=s, reduction=r)
            for s in (0.0, 0.1)
            for r in ("none", "mean", "sum")
        ]
        soft = F.cross_entropy(x, x.detach().softmax(1), label_smoothing=0.2)
        (out[4] + soft).backward()
        return out, soft, x.grad

    check(f, rtol=1e-4, atol=1e-6)


@ref("pytorch/pytorch#134431")
def test_other_losses():
    def f(dev):
        x, y = inp(4, 3, seed=93).to(dev), inp(4, 3, seed=94).to(dev)
        p = y.sigmoid()
        return (
            F.mse_loss(x, y),
            F.l1_loss(x, y, reduction="sum"),
            F.smooth_l1_loss(x, y, beta=0.3),
            F.huber_loss(x, y),
            F.binary_cross_entropy_with_logits(
                x, p, pos_weight=torch.tensor([1.0, 2.0, 3.0], device=dev)
            ),
            F.binary_cross_entropy(x.sigmoid(), p),
            F.kl_div(x.log_softmax(1), p.softmax(1), reduction="batchmean"),
            F.cosine_embedding_loss(x, y, torch.ones(4, device=dev)),
            F.triplet_margin_loss(x, y, x.flip(0)),
            F.nll_loss(x.log_softmax(1), torch.tensor([0, 2, 1, 1], device=dev)),
            F.nll_loss(x.log_softmax(1), torch.full((4,), -100, device=dev)),
            F.poisson_nll_loss(x, p),
            F.gaussian_nll_loss(x, y, p),
        )

    check(f, rtol=1e-4, atol=1e-6)
