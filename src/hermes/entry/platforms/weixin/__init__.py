"""Weixin (WeChat): the iLink bot of a personal account."""
